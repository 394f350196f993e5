//! Transfers between the program and Multipath TCP of Linux, over two TUN interfaces.

use super::kernel;
use super::program::{Folder, Program, hash, hash_of, used_paths};
use anabranch_net::Namespace;
use anabranch_testkit::namespace::{Named, Need, ip, machine_has, set, within};
use rustix::process::Signal;
use std::io::{ErrorKind, Write as _};
use std::net::Shutdown;
use std::time::Duration;

const NEEDS: [Need; 3] = [Need::Namespaces, Need::Tun, Need::Mptcp];

/// Addresses of path `i`: the kernel has `10.0.i.1`, the program has `10.0.i.2`.
const NETWORK: &str = "--tun tun0,10.0.0.1/24,10.0.0.2 --tun tun1,10.0.1.1/24,10.0.1.2";

/// Length of the transferred file.
const BYTES: usize = 8_000_000;

/// Makes the kernel send packets with the source address of path `i` over interface `i`.
fn routes() {
    for path in 0..2 {
        ip(&format!("rule add from 10.0.{path}.1 table {}", 101 + path));
        ip(&format!("route add default dev tun{path} table {}", 101 + path));
    }
    ip("mptcp limits set subflow 4 add_addr_accepted 4");
}

/// Body of the test in which the program sends a file to Linux.
fn sends() {
    let folder = Folder::new();
    let file = folder.random("sent", BYTES);
    let peer = kernel::read_all(kernel::listener(5001), Duration::from_millis(2));
    ip("mptcp limits set subflow 4 add_addr_accepted 4");
    let capture = folder.file("capture.pcapng");
    let settings = "--set congestion=olia --set scheduler=round-robin --set paths=fullmesh";
    let mut program =
        Program::start(&format!("send {file} 10.0.0.1:5001 {NETWORK} {settings} --pcap {capture}"));
    let ended = program.event("ended");
    assert_eq!(program.status(), 0);
    assert_eq!(hash(&peer.join().expect("the peer lives").expect("no error")), hash_of(&file));
    assert_eq!((ended["whole"].as_bool(), ended["fallback"].as_bool()), (Some(true), Some(false)), "{ended}");
    assert_eq!(ended["acknowledged_bytes"], BYTES, "{ended}");
    assert!(used_paths(&ended, "sent_bytes", 100_000) >= 2, "{ended}");
    // The capture contains every byte of the file, and headers.
    assert!(std::fs::metadata(&capture).expect("the capture exists").len() > BYTES as u64);
    assert!(!ip("link show").contains("tun0"), "the interfaces have gone with the program");
}

#[test]
fn file_goes_to_linux_over_two_paths() {
    if machine_has(&NEEDS) {
        within("endpoint-sends", sends);
    }
}

/// Body of the test in which the program receives a file from Linux.
fn receives() {
    let folder = Folder::new();
    let (sent, received) = (folder.random("sent", BYTES), folder.file("received"));
    let mut program = Program::start(&format!("receive 5001 --output {received} {NETWORK}"));
    program.event("listening");
    routes();
    ip("mptcp endpoint add 10.0.1.1 dev tun1 subflow");
    let mut stream = kernel::connected(([10, 0, 0, 2], 5001).into());
    let content = std::fs::read(&sent).expect("the test wrote the file");
    for part in content.chunks(BYTES / 100) {
        stream.write_all(part).expect("the program reads");
        // A kernel worker opens the second subflow, which takes some time.
        std::thread::sleep(Duration::from_millis(5));
    }
    stream.shutdown(Shutdown::Write).expect("connected");
    let ended = program.event("ended");
    assert_eq!(program.status(), 0, "{ended}");
    assert_eq!(hash_of(&received), hash_of(&sent));
    assert!(used_paths(&ended, "received_bytes", 10_000) >= 2, "{ended}");
}

#[test]
fn file_comes_from_linux_over_two_paths() {
    if machine_has(&NEEDS) {
        within("endpoint-receives", receives);
    }
}

/// Sends a file while interfaces are set down and up.
fn survives(network: &str, changes: &[&str]) {
    let folder = Folder::new();
    let file = folder.random("sent", BYTES);
    // The reader takes about 20 Mbyte/s, so that the transfer takes longer than the changes.
    let peer = kernel::read_all(kernel::listener(5001), Duration::from_millis(20));
    ip("mptcp limits set subflow 4 add_addr_accepted 4");
    let mut program = Program::start(&format!("send {file} 10.0.0.1:5001 {network}"));
    program.event("connected");
    for change in changes {
        std::thread::sleep(Duration::from_millis(250));
        ip(&format!("link set dev {change}"));
    }
    let ended = program.event("ended");
    assert_eq!(program.status(), 0, "{ended}");
    assert_eq!(hash(&peer.join().expect("the peer lives").expect("no error")), hash_of(&file));
}

#[test]
fn interface_that_goes_down_loses_no_byte() {
    if machine_has(&NEEDS) {
        within("endpoint-down", || survives(NETWORK, &["tun1 down", "tun1 up", "tun0 down", "tun0 up"]));
        let one = "--tun tun0,10.0.0.1/24,10.0.0.2";
        within("endpoint-down-tcp", move || {
            survives(&format!("{one} --protocol tcp"), &["tun0 down", "tun0 up"]);
        });
    }
}

/// Sends a file to another machine over a router that drops long packets without an ICMP error.
fn crosses_a_black_hole(protocol: &str) {
    let peer = Named::new(format!("anabranch-endpoint-hole-peer-{}", std::process::id()));
    let name = peer.name();
    ip(&format!("link add name hole type veth peer name hole netns {name}"));
    ip("addr add 10.9.0.1/24 dev hole");
    ip("link set dev hole up mtu 1300");
    for command in ["addr add 10.9.0.2/24 dev hole", "link set dev hole up", "route add default via 10.9.0.1"]
    {
        ip(&format!("-netns {name} {command}"));
    }
    set("net.ipv4.ip_forward", "1");
    ip("rule add ipproto icmp to 10.0.0.2 priority 10 blackhole");
    let folder = Folder::new();
    let file = folder.random("sent", BYTES / 8);
    let namespace = Namespace::open(peer.path().as_ref()).expect("the namespace exists");
    let read = namespace.run(|| Ok(kernel::read_all(kernel::listener(5001), Duration::ZERO)));
    let network = "--tun tun0,10.0.0.1/24,10.0.0.2";
    let mut program = Program::start(&format!("send {file} 10.9.0.2:5001 {network} --protocol {protocol}"));
    let ended = program.event("ended");
    assert_eq!(program.status(), 0, "{ended}");
    let read = read.expect("root may enter").join().expect("the peer lives").expect("no error");
    assert_eq!(hash(&read), hash_of(&file));
    assert!(ended["paths"][0]["timeouts"].as_u64() >= Some(3), "the long packets were dropped: {ended}");
}

#[test]
fn silently_dropped_packets_become_smaller() {
    if machine_has(&NEEDS) {
        for protocol in ["tcp", "mptcp"] {
            within("endpoint-hole", move || crosses_a_black_hole(protocol));
        }
    }
}

/// Body of the test with connections without requests: 10,000 of them have to fit into 100 MiB. The first ones are not
/// counted, because the program then also allocates memory that it needs once.
fn waits_for_many() {
    const COUNTED: usize = 500;
    let folder = Folder::new();
    let mut program = Program::start(&format!("http {} 80 {NETWORK}", folder.0.display()));
    program.event("listening");
    let open = |count| -> Vec<_> {
        let streams = (0..count).map(|_| kernel::connected(([10, 0, 0, 2], 80).into())).collect();
        (0..count).for_each(|_| drop(program.event("accepted")));
        streams
    };
    let first = open(100);
    let before = program.resident_bytes();
    let streams = open(COUNTED);
    let grown = program.resident_bytes() - before;
    assert!(grown < (COUNTED as u64) * (100 << 20) / 10_000, "{COUNTED} connections need {grown} bytes");
    drop((first, streams));
    program.signal(Signal::TERM);
    assert_eq!(program.status(), 0);
}

#[test]
fn idle_connections_need_little_memory() {
    if machine_has(&NEEDS) {
        within("endpoint-idle", waits_for_many);
    }
}

fn is_interrupted() {
    let folder = Folder::new();
    let file = folder.random("sent", BYTES);
    let peer = kernel::read_all(kernel::listener(5001), Duration::from_millis(20));
    let mut program = Program::start(&format!("send {file} 10.0.0.1:5001 {NETWORK}"));
    program.event("connected");
    std::thread::sleep(Duration::from_millis(200));
    program.signal(Signal::INT);
    let ended = program.event("ended");
    assert_eq!(program.event("end")["status"], 130);
    assert_eq!(program.status(), 130);
    assert_eq!(ended["whole"], false, "{ended}");
    let error = peer.join().expect("the peer lives").expect_err("a part of a file has no end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn interrupted_transfer_is_reset_and_reported() {
    if machine_has(&NEEDS) {
        within("endpoint-interrupted", is_interrupted);
    }
}

/// Body of the test about refused connections and signals.
fn refuses() {
    // The kernel has no listener on this port, so it answers a SYN with a reset.
    let folder = Folder::new();
    let file = folder.random("sent", 1000);
    let mut program = Program::start(&format!("send {file} 10.0.0.1:5001 {NETWORK}"));
    assert_eq!(program.status(), 1);
    let mut idle = Program::start(&format!("http {} 80 {NETWORK}", folder.0.display()));
    idle.event("listening");
    idle.signal(Signal::TERM);
    assert_eq!(idle.status(), 0, "a server without connections has delivered everything");
    let killed = Program::start(&format!("receive 80 --output {} {NETWORK}", folder.file("received")));
    killed.event("listening");
    assert!(ip("link show").contains("tun1"));
    drop(killed);
    assert!(!ip("link show").contains("tun1"), "kill -9 leaves no interface");
}

#[test]
fn refusals_and_signals_have_their_status() {
    if machine_has(&NEEDS) {
        within("endpoint-refused", refuses);
    }
}
