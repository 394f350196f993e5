//! UDP of hosts behind a router, through the upstream proxy.

use super::lan::{BYPASSED_BY_NAME, BYPASSED_SERVER, HOST, Lan, NEEDS, SERVER, config};
use super::program::EVENT_TIMEOUT;
use anabranch_testkit::namespace::machine_has;
use rustix::process::Signal;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// Time in which a datagram would have arrived.
const SILENCE: Duration = Duration::from_millis(500);

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// Returns the configuration of a router that intercepts UDP.
fn with_udp(mode: &str, more: &str) -> String {
    config(more).replace("via = { ", &format!("via = {{ udp = \"{mode}\", "))
}

/// Starts a server on the far host that answers each datagram with its source, a space and its data.
fn serve(lan: &Lan, address: SocketAddr) {
    let socket = lan.namespace("far").run(|| UdpSocket::bind(address)).expect("a free port");
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((len, source)) = socket.recv_from(&mut buffer) {
            let answer = [format!("{source} ").as_bytes(), &buffer[..len]].concat();
            // Ignore errors: the client may have closed its socket.
            drop(socket.send_to(&answer, source));
        }
    });
}

fn bind(lan: &Lan, host: &str, address: &str) -> UdpSocket {
    let socket = lan.namespace(host).run(|| UdpSocket::bind(at(address, 0))).expect("a free port");
    socket.set_read_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
    socket
}

/// Sends a datagram to a server; returns the source that the server has seen. The answer must come from the server.
fn observed_source(socket: &UdpSocket, server: SocketAddr, data: &[u8]) -> SocketAddr {
    socket.send_to(data, server).expect("there is a route");
    let mut buffer = vec![0; 1 << 16];
    let (len, source) = socket.recv_from(&mut buffer).expect("the server answers");
    assert_eq!(source, server);
    let space = buffer.iter().position(|&byte| byte == b' ').expect("a space");
    assert_eq!(&buffer[space + 1..len], data);
    std::str::from_utf8(&buffer[..space]).ok().and_then(|text| text.parse().ok()).expect("an address")
}

#[test]
fn udp_of_hosts_is_relayed_except_for_bypass() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("udp");
    let servers = [at(SERVER[0], 80), at(SERVER[1], 80)];
    for server in [servers[0], servers[1], at(SERVER[0], 81), at(SERVER[0], 53), at(BYPASSED_SERVER[0], 80)] {
        serve(&lan, server);
    }
    let _far = lan.proxy();
    let bypass = format!("networks = [\"{}\"]\nports = [53]\n", BYPASSED_SERVER[0]);
    let router = lan.router_of(&with_udp("stream", &bypass));
    for (host, server) in HOST.into_iter().zip(servers) {
        let socket = bind(&lan, "host", host);
        let first = observed_source(&socket, server, b"hello");
        assert_ne!(first.ip().to_string(), host);
        // All servers see the same source (RFC 4787 §4.1), and long datagrams arrive unchanged.
        assert_eq!(observed_source(&socket, server, &vec![7; 9000]), first);
        if server.is_ipv4() {
            assert_eq!(observed_source(&socket, at(SERVER[0], 81), b"other"), first);
        }
        assert_ne!(observed_source(&bind(&lan, "host", host), server, b"second socket"), first);
    }
    let socket = bind(&lan, "host", HOST[0]);
    for server in [at(BYPASSED_SERVER[0], 80), at(SERVER[0], 53)] {
        assert_eq!(observed_source(&socket, server, b"direct"), socket.local_addr().expect("bound"));
    }
    // The router's own datagrams, and those to the router, are not intercepted.
    let own = bind(&lan, "router", "198.18.0.1");
    assert_eq!(observed_source(&own, servers[0], b"own"), own.local_addr().expect("bound"));
    let direct = lan.namespace("router").run(|| UdpSocket::bind(at("192.168.7.1", 99))).expect("a free port");
    direct.set_read_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
    socket.send_to(b"to the router", at("192.168.7.1", 99)).expect("there is a route");
    assert_eq!(
        direct.recv_from(&mut [0; 64]).expect("the datagram arrives").1,
        socket.local_addr().expect("bound")
    );
    // Broadcasts and multicasts stay in the LAN.
    socket.set_broadcast(true).expect("UDP has the option");
    for group in ["255.255.255.255", "192.168.7.255", "239.255.255.250"] {
        socket.send_to(b"all", at(group, 1900)).expect("there is a route");
    }
    let source = observed_source(&bind(&lan, "host", HOST[0]), servers[0], b"x");
    assert_ne!(source.ip().to_string(), HOST[0]);
    drop(router);
}

#[test]
fn hosts_get_datagrams_of_their_servers_only() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("strangers");
    let server = at(SERVER[0], 80);
    serve(&lan, server);
    let _far = lan.proxy();
    let _router = lan.router_of(&with_udp("stream", ""));
    let socket = bind(&lan, "host", HOST[0]);
    let source = observed_source(&socket, server, b"hello");
    // Another port of the server's host may answer, as in other address translators; another host may not.
    let other_port = bind(&lan, "far", SERVER[0]);
    other_port.send_to(b"same host", source).expect("there is a route");
    let (len, from) = socket.recv_from(&mut [0; 64]).expect("the datagram arrives");
    assert_eq!((len, from), (9, other_port.local_addr().expect("bound")));
    bind(&lan, "far", BYPASSED_BY_NAME).send_to(b"stranger", source).expect("there is a route");
    socket.set_read_timeout(Some(SILENCE)).expect("a timeout can be set");
    assert_eq!(socket.recv_from(&mut [0; 64]).expect_err("no datagram").kind(), ErrorKind::WouldBlock);
}

#[test]
fn flow_is_opened_again_after_restart_of_proxy() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("reopened");
    let server = at(SERVER[0], 80);
    serve(&lan, server);
    let mut far = lan.proxy();
    let mut router = lan.router_of(&with_udp("stream", ""));
    let socket = bind(&lan, "host", HOST[0]);
    observed_source(&socket, server, b"before");
    far.signal(Signal::KILL);
    far.wait();
    // The router has seen the end of the stream.
    std::thread::sleep(SILENCE);
    socket.send_to(b"lost", server).expect("there is a route");
    router.line("router: UDP of 192.168.7.2:");
    let _far = lan.proxy();
    // A failed flow is opened again after a second.
    std::thread::sleep(Duration::from_millis(1100));
    observed_source(&socket, server, b"after");
    // After the end of the router, datagrams are forwarded directly.
    router.signal(Signal::TERM);
    router.wait();
    assert_eq!(observed_source(&socket, server, b"direct"), socket.local_addr().expect("bound"));
}

#[test]
fn only_listed_servers_go_through_the_proxy() {
    if !machine_has(&NEEDS) {
        return;
    }
    let lan = Lan::new("only");
    for server in [
        at(SERVER[0], 80),
        at(SERVER[1], 80),
        at(BYPASSED_SERVER[0], 80),
        at(BYPASSED_SERVER[1], 80),
        at(BYPASSED_BY_NAME, 80),
    ] {
        serve(&lan, server);
        lan.server(&server.to_string(), drop);
    }
    let _far = lan.proxy();
    let only = format!(
        "[router.only]\nnetworks = [\"{}\", \"{}\"]\nnames = [\"{BYPASSED_BY_NAME}\"]\n",
        SERVER[0], SERVER[1]
    );
    let text = with_udp("stream", "").replace("[router.bypass]\n", &only);
    let _router = lan.router_of(&text);
    for (host, server, is_direct) in [
        (HOST[0], SERVER[0], false),
        (HOST[1], SERVER[1], false),
        (HOST[0], BYPASSED_BY_NAME, false),
        (HOST[0], BYPASSED_SERVER[0], true),
        (HOST[1], BYPASSED_SERVER[1], true),
    ] {
        let socket = bind(&lan, "host", host);
        let source = observed_source(&socket, at(server, 80), b"hello");
        assert_eq!(source.ip().to_string() == host, is_direct, "{server} by UDP");
        let mut line = String::new();
        let mut stream = lan.connect("host", at(server, 80)).expect("the server answers");
        std::io::Read::read_to_string(&mut stream, &mut line).expect("the server sends the address");
        assert_eq!(line.trim() == host, is_direct, "{server} by TCP");
    }
}
