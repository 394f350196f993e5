//! Tests relays and the HTTP server with curl.

use super::program::{EVENT_TIMEOUT, Folder, Program, hash, hash_of};
use anabranch_testkit::namespace::{Need, machine_has, within};
use rustix::process::Signal;
use std::process::Command;

const CURL: Need =
    Need::Other(|| Command::new("curl").arg("-V").output().is_ok(), "the program curl is missing");

/// Requests a URL with curl; returns exit status and output.
fn curl(url: &str) -> (Option<i32>, Vec<u8>) {
    let seconds = EVENT_TIMEOUT.as_secs().to_string();
    let output = Command::new("curl").args(["-sS", "-g", "--max-time", &seconds, url]).output();
    let output = output.expect("curl can be run");
    (output.status.code(), output.stdout)
}

/// Body of the test, which runs in a network namespace.
fn relays() {
    let folder = Folder::new();
    let file = folder.random("file", 3_000_000);
    let tuns = "--tun tun0,10.0.0.1/24,10.0.0.2 --tun tun1,10.0.1.1/24,10.0.1.2";
    let mut server = Program::start(&format!("http {} 80 {tuns}", folder.0.display()));
    server.event("listening");
    // curl connects to the kernel. The first relay uses CMT-SCTP to the second one, which uses the kernel to reach the
    // server.
    let mut far = Program::start("forward stack:7 kernel:10.0.0.2:80 --udp 127.115.4.3 --udp 127.115.4.4");
    far.event("listening");
    let near = "forward kernel:127.0.0.1:8080 stack:127.115.4.3,127.115.4.4:7";
    let mut near = Program::start(&format!("{near} --udp 127.115.4.1 --udp 127.115.4.2"));
    near.event("listening");
    for _ in 0..2 {
        let (status, content) = curl("http://127.0.0.1:8080/file");
        assert_eq!((status, hash(&content)), (Some(0), hash_of(&file)));
    }
    let (status, content) = curl("http://10.0.0.2/[file,none]");
    assert_eq!((status, content.len()), (Some(0), 0), "the server has no such file");
    for program in [&mut near, &mut far, &mut server] {
        program.event("ended");
        program.signal(Signal::INT);
        assert_eq!(program.event("end")["partial"], 0);
        assert_eq!(program.status(), 0);
    }
    let (status, _) = curl("http://127.0.0.1:8080/file");
    assert_eq!(status, Some(7), "the relay has stopped");
}

#[test]
fn curl_reads_a_file_through_two_relays() {
    if machine_has(&[Need::Namespaces, Need::Tun, CURL]) {
        within("endpoint-forward", relays);
    }
}
