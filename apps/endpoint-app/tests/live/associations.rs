//! Transfers between two programs over UDP: CMT-SCTP on two loopback paths. The tests need no privileges.

use super::program::{Folder, PROGRAM, Program, hash_of, used_paths};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// Addresses of the first program's UDP paths.
const HERE: &str = "--udp 127.115.1.1 --udp 127.115.1.2";
/// Addresses of the second program's UDP paths.
const THERE: &str = "--udp 127.115.1.3 --udp 127.115.1.4";

#[test]
fn file_goes_over_two_paths_by_cmt_sctp() {
    let folder = Folder::new();
    let (sent, received) = (folder.random("sent", 8_000_000), folder.file("received"));
    let mut receiver = Program::start(&format!("receive 7 --output {received} {THERE}"));
    receiver.event("listening");
    let settings = "--set congestion=cmt-rpv2 --set buffer_splitting=both --set nr_sack=true";
    let mut sender = Program::start(&format!("send {sent} 127.115.1.3,127.115.1.4:7 {HERE} {settings}"));
    let ended = sender.event("ended");
    assert_eq!((sender.status(), receiver.status()), (0, 0), "{ended}");
    assert_eq!(hash_of(&received), hash_of(&sent));
    // Loopback delivers the file in some round trips, in which the first path's window grows before the second is confirmed.
    assert_eq!(used_paths(&ended, "sent_bytes", 50_000), 2, "{ended}");
}

#[test]
fn messages_that_end_a_direction_are_not_counted() {
    let start = |arguments: &str| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments.split(' ')).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("the program was built")
    };
    let line_with = |program: &mut Child, text: &str| {
        let lines = BufReader::new(program.stderr.as_mut().expect("piped")).lines();
        lines.map_while(Result::ok).find(|line| line.contains(text))
    };
    let mut server = start("listen 7 --udp 127.115.7.2 --protocol sctp");
    assert!(line_with(&mut server, "listening on port 7").is_some());
    let mut client = start("connect 127.115.7.2:7 --udp 127.115.7.1 --protocol sctp");
    for end in [&mut client, &mut server] {
        let ended = line_with(end, "connection ended").expect("the connection ends");
        assert!(ended.ends_with("(whole): 0 bytes sent and acknowledged, 0 bytes received"), "{ended}");
        assert!(end.wait().expect("ours").success());
    }
}

#[test]
fn receiver_of_an_incomplete_file_fails() {
    let folder = Folder::new();
    let (sent, received) = (folder.random("sent", 60_000_000), folder.file("received"));
    let here = "--udp 127.115.2.1";
    let mut receiver = Program::start(&format!("receive 7 --output {received} --udp 127.115.2.2"));
    receiver.event("listening");
    let mut sender = Program::start(&format!("send {sent} 127.115.2.2:7 {here} --protocol sctp"));
    sender.event("connected");
    receiver.event("accepted");
    sender.signal(Signal::TERM);
    assert_eq!((sender.status(), receiver.status()), (130, 1));
    assert!(hash_of(&received).0 < 60_000_000);
    assert_eq!(sender.event("ended")["whole"], false);
}

#[test]
fn mistakes_end_with_status_2_before_anything_runs() {
    for (arguments, expected) in [
        ("send /nonexistent/file 127.0.0.1:7 --udp 127.115.3.1", "cannot read /nonexistent/file: "),
        ("listen 7 --udp 127.115.3.1 --set congestoin=reno", "--set congestoin=reno: there is no setting"),
        ("listen 7 --udp 127.115.3.1 --set congestion=olia2", "--set congestion=olia2: congestion "),
        ("http /nonexistent 80 --udp 127.115.3.1", "cannot read /nonexistent: "),
        ("listen 7 --udp 127.115.3.1 --pcap /nonexistent/file", "--pcap /nonexistent/file: "),
    ] {
        let output =
            Command::new(PROGRAM).args(arguments.split(' ')).output().expect("the program was built");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.starts_with(&format!("anabranch-endpoint: {expected}")), "{text}");
        assert!(text.lines().count() == 1 && output.stdout.is_empty(), "{text}");
    }
    let taken = Program::start("receive 7 --output /dev/null --udp 127.115.3.2");
    taken.event("listening");
    let second = Command::new(PROGRAM).args(["listen", "7", "--udp", "127.115.3.2"]).output().expect("built");
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        text.contains("cannot use UDP at 127.115.3.2:9899") && text.contains("choose another UDP port"),
        "{text}"
    );
}

#[test]
fn mistakes_and_interrupts_keep_existing_files() {
    let folder = Folder::new();
    let file = folder.file("precious");
    std::fs::write(&file, "content").expect("ours");
    let link = folder.file("link");
    std::os::unix::fs::symlink(&file, &link).expect("ours");
    let new = folder.file("new");
    let here = "--udp 127.115.5.1";
    for (arguments, expected) in [
        (format!("receive 7 --output {file} {here} --set congestoin=reno"), "--set congestoin=reno: "),
        (
            format!("send {file} 127.115.5.2:7 {here} --pcap {link}"),
            "--pcap and the file to send are the same",
        ),
        (format!("receive 7 --output {file} {here} --pcap {link}"), "--pcap and --output are the same file"),
        (format!("receive 7 --output {new} {here} --pcap {new}"), "--pcap and --output are the same file"),
    ] {
        let output =
            Command::new(PROGRAM).args(arguments.split(' ')).output().expect("the program was built");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.starts_with(&format!("anabranch-endpoint: {expected}")), "{text}");
    }
    let mut receiver = Program::start(&format!("receive 7 --output {file} {here}"));
    receiver.event("listening");
    receiver.signal(Signal::INT);
    assert_eq!(receiver.status(), 130);
    assert_eq!(std::fs::read_to_string(&file).expect("ours"), "content");
    assert!(!std::path::Path::new(&new).exists());
}

#[test]
fn signal_ends_a_relay_that_connects() {
    let peer = std::net::UdpSocket::bind("127.115.6.2:9899").expect("a free port");
    let mut relay = Program::start("forward kernel:127.0.0.1:0 stack:127.115.6.2:7 --udp 127.115.6.1");
    let address = relay.event("listening")["address"].as_str().expect("an address").to_owned();
    let _client = std::net::TcpStream::connect(address).expect("the relay listens");
    // The relay has accepted the client, because its first packet arrives. No answer is sent.
    peer.recv_from(&mut [0; 2048]).expect("a packet of the relay");
    relay.signal(Signal::INT);
    assert_eq!(relay.event("refused")["reason"], "interrupted before everything was delivered");
    assert_eq!(relay.status(), 0);
}
