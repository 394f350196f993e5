//! A router: connections of the hosts behind it, and the network settings of its machine after it stops.

use super::lan::{BYPASSED_BY_NAME, BYPASSED_SERVER, FAR_PROXY, HOST, Lan, NEEDS, SERVER, config, succeed};
use super::program::{Config, EVENT_TIMEOUT, PROGRAM, Program, send_endlessly, write_urgently};
use anabranch_testkit::namespace::machine_has;
use rustix::process::Signal;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;
use tokio::time::Instant;

/// Result of [`observed_source`] if the server sees an address of the proxy's machine instead of the host's.
const BY_PROXY: &str = "by the proxy";

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// Sends received bytes back; closes when the client has closed.
fn echo(mut stream: TcpStream) {
    let mut from = stream.try_clone().expect("a copy");
    drop(std::io::copy(&mut from, &mut stream));
}

/// Connects from the host to a server; returns the client's address as the server sees it, or [`BY_PROXY`].
fn observed_source(lan: &Lan, server: SocketAddr) -> String {
    let mut line = String::new();
    let stream = lan.connect("host", server).expect("the server answers");
    BufReader::new(stream).read_line(&mut line).expect("the server sends the address of its client");
    let from = line.trim();
    if HOST.contains(&from) { from.to_owned() } else { BY_PROXY.to_owned() }
}

/// Connects and reads without sending data; returns the error, if there is one.
fn end_of(lan: &Lan, from: &str, to: SocketAddr) -> Option<ErrorKind> {
    let ended = lan.connect(from, to).and_then(|mut stream| stream.read(&mut [0]));
    ended.err().map(|error| error.kind())
}

/// True if a server answers the host's ICMP echo request (RFC 792, RFC 4443 §4.1).
fn is_pinged(lan: &Lan, server: &str) -> bool {
    let to = at(server, 0);
    // An IPv4 raw socket also returns the IP header. An IPv6 raw socket returns no header, and the kernel computes the
    // checksum.
    let (protocol, request, reply, header) =
        if to.is_ipv4() { (Protocol::ICMPV4, 8, 0, 20) } else { (Protocol::ICMPV6, 128, 129, 0) };
    let mut message = [request, 0, 0, 0, 0x12, 0x34, 0, 1];
    let sum = 0xffff - (u16::from(request) << 8) - 0x1234 - 1;
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let open = || Socket::new(Domain::for_address(to), Type::RAW, Some(protocol));
    let mut socket = lan.namespace("host").run(open).expect("root may open a raw socket");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout can be set");
    socket.send_to(&message, &to.into()).expect("there is a route");
    let mut packet = [0; 64];
    // The IPv6 socket also receives messages of neighbour discovery.
    while let Ok(len) = socket.read(&mut packet) {
        let message = packet.get(header..len).unwrap_or_default();
        if message.first() == Some(&reply) && message.get(4..8) == Some(&[0x12, 0x34, 0, 1]) {
            return true;
        }
    }
    false
}

#[test]
fn router_relays_hosts_except_for_bypass() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("route");
    for server in ["0.0.0.0:80", "0.0.0.0:25", "[::]:81"] {
        lan.server(server, echo);
    }
    assert_eq!(observed_source(&lan, at(SERVER[0], 80)), HOST[0]);
    let _far = lan.proxy();
    let router = lan.router(&format!(
        "networks = [\"{}\", \"{}\"]\nports = [25]\nnames = [\"{BYPASSED_BY_NAME}\"]\n",
        BYPASSED_SERVER[0], BYPASSED_SERVER[1]
    ));
    for (server, from) in [
        (at(SERVER[0], 80), BY_PROXY),
        (at(SERVER[1], 81), BY_PROXY),
        (at(BYPASSED_SERVER[0], 80), HOST[0]),
        (at(BYPASSED_SERVER[1], 81), HOST[1]),
        (at(BYPASSED_BY_NAME, 80), HOST[0]),
        (at(SERVER[0], 25), HOST[0]),
    ] {
        assert_eq!(observed_source(&lan, server), from, "{server}");
    }
    // Hosts can connect to the far proxy directly, since its address is bypassed.
    let mut stream = lan.connect("host", FAR_PROXY.parse().expect("an address")).expect("the server listens");
    stream.write_all(&[5, 1, 0]).expect("the peer reads");
    stream.read_exact(&mut [0; 2]).expect("the peer answers");
    // A connection to the router's port that was not intercepted has no target.
    assert_eq!(end_of(&lan, "router", at("127.0.0.1", 1081)), Some(ErrorKind::ConnectionReset));
    router.line("connected directly to the port of intercepted connections");
    check_findings(&lan, router);
}

#[test]
fn hosts_are_relayed_through_a_converter() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("convert");
    for server in ["0.0.0.0:80", "[::]:81"] {
        lan.server(server, echo);
    }
    let mut far = lan.proxy_of("convert");
    let router = lan.router_of(&config("").replace("via = { ", "via = { protocol = \"convert\", "));
    for server in [at(SERVER[0], 80), at(SERVER[1], 81)] {
        assert_eq!(observed_source(&lan, server), BY_PROXY, "{server}");
    }
    // All data of host and server arrive, including the first, and either end may close first.
    let mut stream = lan.connect("host", at(SERVER[0], 80)).expect("the router answers");
    let report = vec![7; 1 << 20];
    let mut from = stream.try_clone().expect("a copy");
    let writing = std::thread::spawn(move || {
        from.write_all(&report).expect("the server reads");
        from.shutdown(Shutdown::Write).expect("the stream is connected");
    });
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("the server ends");
    writing.join().expect("all is written");
    let line = heard.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
    assert!(heard.len() - line == 1 << 20 && heard[line..].iter().all(|&byte| byte == 7));
    // First the server refuses the connection, then the converter has been stopped.
    assert_eq!(end_of(&lan, "host", at(SERVER[0], 9)), Some(ErrorKind::ConnectionReset));
    router.line("reports: ");
    far.signal(Signal::KILL);
    far.wait();
    assert_eq!(end_of(&lan, "host", at(SERVER[0], 80)), Some(ErrorKind::ConnectionReset));
}

/// Asserts the findings of `check` while the router runs, after another program has removed its rules, and without a
/// router.
fn check_findings(lan: &Lan, mut router: Program) {
    let config = Config::new(&config(""));
    let check = || {
        let words: Vec<_> = [PROGRAM.to_owned()].into_iter().chain(config.arguments("check")).collect();
        let output = lan.run("router", &words.iter().map(String::as_str).collect::<Vec<_>>());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let report = check();
    assert!(
        report.contains("yes  a router runs on this machine\nyes  the nftables table anabranch-router"),
        "{report}"
    );
    // The LAN interface is not an uplink, so there is no finding about an endpoint for it.
    assert!(report.contains("the only uplink is up0") && !report.contains("192.168.7.1"), "{report}");
    succeed(router_command(lan, &["nft", "flush", "ruleset"]));
    router.line("has removed or changed the nftables table anabranch-router; restored");
    assert_eq!(check(), report);
    router.signal(Signal::TERM);
    assert!(router.wait().success());
    let report = check();
    assert!(
        report.contains("no   no router runs on this machine")
            && report.contains("rules and routes are not installed"),
        "{report}"
    );
}

/// Other programs remove rules, routes and tables, or a firewall drops intercepted packets. In each case connections of
/// hosts keep working, and none hangs for long.
#[test]
fn router_survives_changes_by_other_programs() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("guard");
    for server in ["0.0.0.0:80", "[::]:81"] {
        lan.server(server, echo);
    }
    let servers = [at(SERVER[0], 80), at(SERVER[1], 81)];
    let _far = lan.proxy();
    let router = lan.router("");
    let is_served = || assert_eq!(servers.map(|server| observed_source(&lan, server)), [BY_PROXY, BY_PROXY]);
    is_served();
    for family in ["-4", "-6"] {
        for removed in ["rule del priority 500", "route flush table 1081"] {
            lan.ip("router", &format!("{family} {removed}"));
            router.line(&format!("restored: ip {family} "));
            is_served();
        }
    }
    for removed in [
        "flush ruleset",
        "flush chain inet anabranch-router prerouting",
        "delete table inet anabranch-router",
    ] {
        succeed(router_command(&lan, &[&["nft"], &removed.split(' ').collect::<Vec<_>>()[..]].concat()));
        router.line("restored");
        is_served();
    }
    // While a firewall drops intercepted packets, connections bypass the proxy.
    let firewall = "table inet fw { chain input { type filter hook input priority filter; policy drop; \
                    ct state established,related accept; iifname \"lo\" accept; meta l4proto ipv6-icmp accept; }; }";
    succeed(router_command(&lan, &["nft", firewall]));
    let line = router.line("the chain inet fw input drops intercepted packets");
    assert_eq!(servers.map(|server| observed_source(&lan, server)), HOST);
    let remedy = line.split(": ").last().expect("a remedy");
    succeed(router_command(&lan, &["sh", "-c", remedy]));
    router.line("intercepts the TCP connections of its hosts again");
    is_served();
}

#[test]
fn router_keeps_urgent_bytes() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("urgent");
    lan.server("0.0.0.0:80", |mut stream| {
        socket2::SockRef::from(&stream).set_out_of_band_inline(true).expect("TCP has the option");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("the client ends");
        write_urgently(&stream);
        stream.write_all(&all).expect("the client reads");
    });
    let _far = lan.proxy();
    let _router = lan.router("");
    let mut stream = lan.connect("host", at(SERVER[0], 80)).expect("the peer answers");
    socket2::SockRef::from(&stream).set_out_of_band_inline(true).expect("TCP has the option");
    write_urgently(&stream);
    stream.shutdown(Shutdown::Write).expect("the stream is connected");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server ends");
    assert!(answer.ends_with("\nabc!defabc!def"), "{answer}");
}

fn router_command(lan: &Lan, words: &[&str]) -> Command {
    let mut ip = Command::new("ip");
    ip.args(["netns", "exec", lan.name("router")]).args(words);
    ip
}

#[test]
fn hosts_are_reset_without_the_proxy() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("untouched");
    for server in ["0.0.0.0:80", "[::]:81"] {
        lan.server(server, echo);
    }
    let _router = lan.router("");
    for (host, server) in HOST.into_iter().zip(SERVER) {
        let far = lan.namespace("far").run(|| UdpSocket::bind(at(server, 53))).expect("a free port");
        let near = lan.namespace("host").run(|| UdpSocket::bind(at(host, 0))).expect("a free port");
        far.set_read_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
        near.send_to(b"datagram", at(server, 53)).expect("there is a route");
        let (len, from) = far.recv_from(&mut [0; 16]).expect("the datagram arrives");
        assert_eq!((len, from.ip().to_string().as_str()), (8, host));
        assert!(is_pinged(&lan, server), "{server} does not answer");
    }
    for server in [at(SERVER[0], 80), at(SERVER[1], 81)] {
        let begin = Instant::now();
        assert_eq!(end_of(&lan, "host", server), Some(ErrorKind::ConnectionReset));
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
        // The router does not intercept connections of the machine on which it runs.
        let mut line = String::new();
        let own = lan.connect("router", server).expect("the server listens");
        BufReader::new(own).read_line(&mut line).expect("the server sends the address of its client");
        assert!(["198.18.0.1", "fd18::1"].contains(&line.trim()), "{line}");
    }
}

#[test]
fn streams_follow_close_and_reset_of_their_ends() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("streams");
    let _far = lan.proxy();
    // The server reads the stream to its end and then answers.
    lan.server("0.0.0.0:80", |mut stream| {
        let mut all = Vec::new();
        if stream.read_to_end(&mut all).is_ok() {
            stream.write_all(&all).expect("the client reads");
        }
    });
    let (sender, receiver) = channel();
    lan.server("0.0.0.0:81", move |mut stream| {
        let ended = stream.read(&mut [0]).map_err(|error| error.kind());
        sender.send(ended).expect("the test still receives");
    });
    lan.server("0.0.0.0:82", |stream| {
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("TCP has the option");
    });
    let _router = lan.router("");
    let content: Vec<u8> = (0..3_000_000).map(|at: u32| (at % 251) as u8).collect();
    let mut stream = lan.connect("host", at(SERVER[0], 80)).expect("the router answers");
    stream.write_all(&content).expect("the server reads the content");
    stream.shutdown(Shutdown::Write).expect("the stream is connected");
    let (mut reader, mut line, mut all) = (BufReader::new(stream), String::new(), Vec::new());
    reader.read_line(&mut line).expect("the server sends the address of its client");
    reader.read_to_end(&mut all).expect("the server ends");
    assert!(all == content, "{} bytes", all.len());

    let stream = lan.connect("host", at(SERVER[0], 81)).expect("the router answers");
    BufReader::new(&stream).read_line(&mut line).expect("the server sends the address of its client");
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("TCP has the option");
    drop(stream);
    assert_eq!(
        receiver.recv_timeout(EVENT_TIMEOUT).expect("the stream ends"),
        Err(ErrorKind::ConnectionReset)
    );

    let stream = lan.connect("host", at(SERVER[0], 82)).expect("the router answers");
    let ended = BufReader::new(stream).read_to_end(&mut all).map_err(|error| error.kind());
    assert_eq!(ended, Err(ErrorKind::ConnectionReset));
}

/// A host may reuse a port immediately after its connection has ended, while the router's end is still in TIME-WAIT.
#[test]
fn reused_port_opens_a_new_connection() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("again");
    let _far = lan.proxy();
    lan.server("0.0.0.0:80", drop);
    let _router = lan.router("");
    // A router that took a packet for one of the old connection would answer it with a reset. Only Linux recovers from
    // this within milliseconds, so the test counts resets.
    let resets = || {
        let snmp = lan.run("host", &["cat", "/proc/net/snmp"]);
        let text = String::from_utf8_lossy(&snmp.stdout).into_owned();
        let values = text.lines().filter(|line| line.starts_with("Tcp:")).nth(1).expect("counters of TCP");
        values.split(' ').nth(14).and_then(|count| count.parse::<u32>().ok()).expect("OutRsts")
    };
    for _ in 0..3 {
        let connect = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&at(HOST[0], 5555).into())?;
            socket.set_read_timeout(Some(EVENT_TIMEOUT))?;
            socket.connect(&at(SERVER[0], 80).into())?;
            let mut all = String::new();
            TcpStream::from(socket).read_to_string(&mut all)?;
            Ok(all)
        };
        assert!(!lan.namespace("host").run(connect).expect("the stream is connected").is_empty());
        // Waits until the kernel of the host has closed the connection.
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(resets(), 0);
}

#[test]
fn killed_far_proxy_resets_both_ends() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("dies");
    let mut far = lan.proxy();
    lan.server("0.0.0.0:80", echo);
    let _router = lan.router("");
    let mut stream = lan.connect("host", at(SERVER[0], 80)).expect("the router answers");
    BufReader::new(&stream)
        .read_line(&mut String::new())
        .expect("the server sends the address of its client");
    far.signal(Signal::KILL);
    far.wait();
    let begin = Instant::now();
    let ended = stream.read(&mut [0]).map_err(|error| error.kind());
    eprintln!("reset {} ms after the proxy was killed", begin.elapsed().as_millis());
    assert_eq!(ended, Err(ErrorKind::ConnectionReset));
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[test]
fn router_cleans_up_after_open_connections() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("leaves");
    let _far = lan.proxy();
    lan.server("0.0.0.0:80", echo);
    let before = lan.state();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let older = lan.connect("host", at(SERVER[0], 80)).expect("the server listens");
        BufReader::new(&older)
            .read_line(&mut String::new())
            .expect("the server sends the address of its client");
        let mut router = lan.router("");
        assert_ne!(lan.state(), before);
        assert_eq!(&super::program::exchange::<5>(&older, b"still"), b"still");
        // Open connections may still run.
        let carried = lan.connect("host", at(SERVER[0], 80)).expect("the router answers");
        BufReader::new(&carried)
            .read_line(&mut String::new())
            .expect("the server sends the address of its client");
        router.signal(signal);
        router.line("1 open connections may run until drain_timeout");
        assert_eq!(&super::program::exchange::<5>(&carried, b"still"), b"still");
        assert_eq!(
            observed_source(&lan, at(SERVER[0], 80)),
            HOST[0],
            "new connections bypass the stopping router"
        );
        drop(carried);
        assert!(router.wait().success());
        assert_eq!(lan.state(), before);
        assert_eq!(&super::program::exchange::<5>(&older, b"after"), b"after");
    }
}

/// Folder with files that `ip netns exec` mounts over those in `/etc`.
struct Etc(std::path::PathBuf);

impl Etc {
    fn new(lan: &Lan, file: &str, text: &str) -> Self {
        let folder = std::path::Path::new("/etc/netns").join(lan.name("router"));
        std::fs::create_dir_all(&folder).expect("root may write in /etc");
        std::fs::write(folder.join(file), text).expect("root may write in /etc");
        Self(folder)
    }
}

impl Drop for Etc {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn router_stops_while_waiting_for_name_servers() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("silent");
    let chain = "add table inet t; add chain inet t c { type filter hook input priority 0; }; \
                 add rule inet t c udp dport 53 drop";
    assert!(lan.run("far", &["nft", chain]).status.success());
    let _etc = Etc::new(&lan, "resolv.conf", "nameserver 198.18.0.2\noptions timeout:30 attempts:2\n");
    let before = lan.state();
    let config = config("names = [\"bank.example\"]\n");
    let mut router = Program::start_in(lan.name("router"), "router", &config);
    std::thread::sleep(Duration::from_millis(500));
    router.signal(Signal::TERM);
    let begin = Instant::now();
    assert!(router.wait().success());
    assert!(begin.elapsed() < EVENT_TIMEOUT, "{:?}", begin.elapsed());
    assert_eq!(lan.state(), before);
}

#[test]
fn router_restarts_after_fifty_kills_under_load() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("killed");
    let _far = lan.proxy();
    lan.server("0.0.0.0:80", echo);
    let before = lan.state();
    let mut router = lan.router("");
    let new = lan.state();
    for time in 0..50 {
        let stream = || lan.connect("host", at(SERVER[0], 80)).expect("the router answers");
        let streams: Vec<_> = (0..8).map(|_| send_endlessly(stream())).collect();
        std::thread::sleep(Duration::from_millis(time % 7 * 10));
        router.signal(Signal::KILL);
        router.wait();
        for stream in streams {
            let (wrote, read) = stream.join().expect("the stream ends");
            // The kernel reports a reset once, to one of the two hosts.
            let reset = ErrorKind::ConnectionReset;
            assert!(wrote == reset || read == Err(reset), "{wrote:?}, {read:?}");
        }
        router = lan.router("");
        assert_eq!(lan.state(), new, "after {time} times");
    }
    assert_eq!(observed_source(&lan, at(SERVER[0], 80)), BY_PROXY);
    router.signal(Signal::TERM);
    assert!(router.wait().success());
    assert_eq!(lan.state(), before);
}

#[test]
fn router_prints_installed_rules() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("print");
    let _far = lan.proxy();
    lan.server("0.0.0.0:80", echo);
    let before = lan.state();
    let bypass =
        "networks = [\"203.0.113.81\", \"fd00::/8\"]\nports = [25, 465]\nnames = [\"203.0.113.82\"]\n";
    let mut router = lan.router(bypass);
    let installed = lan.state();
    router.signal(Signal::TERM);
    assert!(router.wait().success());
    let config = Config::new(&config(bypass));
    let mut words = vec![PROGRAM.to_owned()];
    words.extend(config.arguments("router"));
    words.push("--print".to_owned());
    let printed = succeed(router_command(&lan, &words.iter().map(String::as_str).collect::<Vec<_>>()));
    shell(&lan, &printed);
    assert_eq!(lan.state(), installed);
    // The rules have been installed by hand, so the router is started with `install = false`.
    let by_hand = super::lan::config(bypass).replace("[router]\n", "[router]\ninstall = false\n");
    let mut router = Program::start_in(lan.name("router"), "router", &by_hand);
    assert_eq!(observed_source(&lan, at(SERVER[0], 80)), BY_PROXY);
    router.signal(Signal::TERM);
    assert!(router.wait().success());
    assert_eq!(lan.state(), installed);
    let undo: Vec<_> = printed
        .split("# to revert these commands:\n")
        .nth(1)
        .expect("the script has this comment")
        .lines()
        .collect();
    shell(&lan, &undo.iter().map(|line| line.trim_start_matches("# ")).collect::<Vec<_>>().join("\n"));
    assert_eq!(lan.state(), before);
}

/// Runs a script on the router.
fn shell(lan: &Lan, script: &str) {
    let mut sh = router_command(lan, &["sh", "-e"]);
    let mut sh = sh.stdin(Stdio::piped()).spawn().expect("sh can be run");
    sh.stdin.take().expect("the stream is a pipe").write_all(script.as_bytes()).expect("the peer reads");
    assert!(sh.wait().expect("the process is a child").success(), "{script}");
}

#[test]
fn conflict_is_reported_and_nothing_is_installed() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("refuses");
    let refused = |before: &[&str], report: &str| {
        let state = lan.state();
        let (status, config_error) = lan.config_error(before, &config(""));
        assert!(status == Some(1) && config_error.contains(report), "{report}: {config_error}");
        assert_eq!(lan.state(), state);
    };
    lan.ip("router", "rule add fwmark 0x8000000/0xf000000 lookup 77");
    refused(
        &[],
        "mark 0x8000000 is in use by another program (see: ip -4 rule show); set another in [router]",
    );
    lan.ip("router", "rule del fwmark 0x8000000/0xf000000 lookup 77");
    lan.ip("router", "-6 rule add to 2001:db8:7::/48 lookup 1081");
    refused(&[], "table 1081 is in use by another program (see: ip -6 rule show)");
    lan.ip("router", "-6 rule del to 2001:db8:7::/48 lookup 1081");
    lan.ip("router", "route add 203.0.113.7 via 198.18.0.2 table 1081");
    refused(&[], "table 1081 is in use by another program (see: ip -4 route show table 1081)");
    lan.ip("router", "route flush table 1081");
    if Command::new("setpriv").arg("--version").output().is_ok() {
        refused(
            &["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"],
            "needs CAP_NET_ADMIN",
        );
    }
    let programs = Programs::without_nft();
    let path = format!("PATH={}", programs.0.display());
    refused(&["env", &path], "the program nft is missing; install the package nftables");
    programs.with_nft("input=$(cat); case $input in *tproxy*) echo Error: no such file >&2; exit 1;; esac");
    refused(&["env", &path], "probably because it was built without CONFIG_NFT_TPROXY");
    let _router = lan.router("");
    refused(&[], "another router already runs in this network namespace");
}

/// A folder with the programs that the router runs, with or without `nft`.
struct Programs(std::path::PathBuf);

impl Programs {
    fn without_nft() -> Self {
        let folder = std::env::temp_dir().join(format!("anabranch-programs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
        for program in ["ip", "cat"] {
            let found = succeed({
                let mut which = Command::new("sh");
                which.args(["-c", &format!("command -v {program}")]);
                which
            });
            std::os::unix::fs::symlink(found.trim(), folder.join(program)).expect("the link is new");
        }
        Self(folder)
    }

    fn with_nft(&self, script: &str) {
        let path = self.0.join("nft");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("the folder is ours");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("the test created the file");
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
