//! The status page. The tests act as readers of the page.

use super::program::{EVENT_TIMEOUT, PROGRAM, Program, connect, echo, exchange};
use super::socks::{OPEN_CONFIG, through};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;
use tokio::time::Instant;

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = connect(address);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("the peer reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the peer answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    body.to_owned()
}

#[test]
fn traffic_is_reported() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let proxy = Program::start("socks", &format!("{OPEN_CONFIG}[watch]\nlisten = \"{free}\"\n"), 1);
    let stream = through(&proxy, echo("127.0.0.1:0"));
    assert_eq!(&exchange::<5>(&stream, b"hello"), b"hello");
    let status: Value = serde_json::from_str(&get(free, "/status.json")).expect("JSON");
    let connection = &status["connections"][0];
    assert_eq!((&status["services"]["socks"]["open"], &connection["up_bytes"]), (&1.into(), &5.into()));
    let ends = connection["ends"].as_array().expect("a list");
    assert_eq!(
        (ends.len(), &ends[1]["kind"], &ends[1]["subflows"][0]["sent_bytes"]),
        (2, &"tcp".into(), &5.into())
    );
    assert_eq!(status["uplinks"].as_array().map(Vec::len), Some(2));
    assert!(get(free, "/").contains("<canvas"));
    drop(stream);
    let begin = Instant::now();
    while !get(free, "/metrics").contains("anabranch_connections{service=\"socks\"} 0\n") {
        assert!(begin.elapsed() < EVENT_TIMEOUT, "the connection stays open");
        std::thread::sleep(Duration::from_millis(20));
    }
    let metrics = get(free, "/metrics");
    for line in
        ["anabranch_connections_total{service=\"socks\"} 1", "anabranch_up_bytes_total{service=\"socks\"} 5"]
    {
        assert!(metrics.lines().any(|message| message == line), "{line}\n{metrics}");
    }
    let shown =
        Command::new(PROGRAM).args(["watch", &free.to_string()]).output().expect("the program can be run");
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success() && text.contains("socks: 0 open of 1 connections"), "{text}");
}
