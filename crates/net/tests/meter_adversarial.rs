//! Hostile clients of a meter server: each is refused or ends, and the next test runs.
#![cfg(target_os = "linux")]

use anabranch_net::meter::remote::{Plan, Server, Source, run};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const WAIT_TIMEOUT: Duration = Duration::from_secs(20);
const COOKIE: u64 = 7;

fn server() -> Server {
    Server::start(SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback has a free port")
}

fn scenario(duration: &str) -> String {
    format!(
        "title = \"test\"\nduration = \"{duration}\"\n[[link]]\nbetween = [\"client\", \"server\"]\n\
         rate = \"1 Gbit/s\"\n[[flow]]\nfrom = \"client\"\nto = \"server\"\nprotocol = \"tcp\"\n\
         workload = {{ kind = \"saturated\" }}\n"
    )
}

fn plan(duration: &str) -> Plan {
    Plan { scenario: scenario(duration), interval_s: 0.1, ..Plan::default() }
}

/// Fails unless an ordinary test succeeds.
fn check_service(server: &Server) {
    let tested =
        run(("127.0.0.1", server.address().port()), &Source::default(), plan("0.2 s"), &mut |_| true);
    tested.expect("the server serves the next client");
}

/// A client that writes its own messages.
struct Client {
    lines: BufReader<TcpStream>,
}

impl Client {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).expect("the server listens");
        stream.set_read_timeout(Some(WAIT_TIMEOUT)).expect("the option exists");
        Self { lines: BufReader::new(stream) }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.lines.get_mut(), "{message}").expect("the server reads");
    }

    /// The next message; `Null` at the end of the connection.
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("the server answers");
        if line.is_empty() { Value::Null } else { serde_json::from_str(&line).expect("JSON") }
    }

    fn send_hello(&mut self) {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has a boot id");
        self.send(&json!({ "hello": { "protocol": 4, "version": "0", "boot": boot.trim() } }));
        assert!(self.receive()["hello"].is_object());
    }

    /// Sends a plan; returns the ports of its flows.
    fn plan(&mut self, duration: &str) -> Vec<u16> {
        self.send(&json!({ "plan": { "cookie": COOKIE, "plan": plan(duration) } }));
        let ready = self.receive();
        serde_json::from_value(ready["ready"]["ports"].clone()).expect("the server is ready")
    }

    /// A client whose test of this duration is about to start, with its flow.
    fn connected(server: &Server, duration: &str) -> (Self, TcpStream) {
        let mut client = Self::connect(server);
        client.send_hello();
        let ports = client.plan(duration);
        let mut flow = TcpStream::connect(("127.0.0.1", ports[0])).expect("the server listens");
        let mut greeting = b"ab-m\0\0\0\0".to_vec();
        greeting.extend_from_slice(&COOKIE.to_le_bytes());
        flow.write_all(&greeting).expect("the server reads");
        assert_eq!(client.receive(), json!("connected"));
        (client, flow)
    }
}

#[test]
fn boot_id_is_sent_to_clients_with_the_same_id() {
    let server = server();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has a boot id");
    for (shown, expected) in
        [("", ""), ("0f0e0d0c-0000-0000-0000-000000000000", ""), (boot.trim(), boot.trim())]
    {
        let mut client = Client::connect(&server);
        client.send(&json!({ "hello": { "protocol": 4, "version": "0", "boot": shown } }));
        assert_eq!(client.receive()["hello"]["boot"], expected);
    }
}

#[test]
fn start_far_from_servers_clock_is_refused() {
    let server = server();
    for zero_ns in [0, u64::MAX] {
        let (mut client, _flow) = Client::connected(&server, "1 s");
        client.send(&json!({ "go": { "zero_ns": zero_ns } }));
        let answer = client.receive();
        let reason = answer["refused"]["reason"].as_str().expect("a refusal");
        assert!(reason.contains("more than 5 s from the server's clock"), "{reason}");
    }
    check_service(&server);
}

#[test]
fn disconnected_client_frees_the_server() {
    let server = server();
    let mut client = Client::connect(&server);
    client.send_hello();
    client.plan("30 s");
    drop(client);
    let news = server.poll(WAIT_TIMEOUT).expect("an event");
    assert!(news.text.contains("closed the connection"), "{}", news.text);
    check_service(&server);
}

#[test]
fn unfinished_line_does_not_stop_the_test() {
    let server = server();
    let (mut client, _flow) = Client::connected(&server, "0.3 s");
    client.send(&json!({ "go": { "zero_ns": monotonic_ns() } }));
    client.lines.get_mut().write_all(b"{\"done").expect("the server reads");
    assert!(client.receive()["result"].is_object());
    check_service(&server);
}

#[test]
fn server_ends_while_clients_wait() {
    let server = server();
    let mut silent = Client::connect(&server);
    let mut planned = Client::connect(&server);
    planned.send_hello();
    planned.plan("30 s");
    let begun = anabranch_net::Clock::new();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(4), "the server waited for the timeout of its clients");
    assert_eq!(silent.receive(), Value::Null);
}

/// The machine's monotonic clock.
fn monotonic_ns() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").expect("Linux has an uptime");
    let seconds: f64 = uptime.split(' ').next().expect("a number").parse().expect("a number");
    (seconds * 1e9) as u64
}
