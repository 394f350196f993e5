//! Reverse proxies. The tests observe clients and servers.

use super::program::{EVENT_TIMEOUT, Program, connect, echo, exchange, keep_urgent_bytes, server};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};

fn config(to: &[SocketAddr], more: &str) -> String {
    let to: Vec<_> = to.iter().map(|address| format!("\"{address}\"")).collect();
    let to = to.join(", ");
    format!("[[reverse]]\nname = \"web\"\nlisten = [\"127.0.0.1:0\", \"[::1]:0\"]\nto = [{to}]\n{more}")
}

#[test]
fn servers_get_the_address_of_the_client() {
    let tells = server("127.0.0.1:0", |mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("the client ends");
        stream.write_all(&all).expect("the client reads");
    });
    for (version, listener) in [("v1", 0), ("v2", 1)] {
        let program =
            Program::start("reverse", &config(&[tells], &format!("proxy_protocol = \"{version}\"")), 2);
        let stream = connect(program.addresses[listener]);
        let [client, proxy] = [stream.local_addr(), stream.peer_addr()]
            .map(|address| address.expect("the socket has an address"));
        (&stream).write_all(b"GET /").expect("the peer reads");
        stream.shutdown(std::net::Shutdown::Write).expect("the stream is connected");
        let mut receiver = Vec::new();
        (&stream).read_to_end(&mut receiver).expect("the server ends");
        let expected = if version == "v1" {
            format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\nGET /", client.port(), proxy.port()).into_bytes()
        } else {
            let loopback = std::net::Ipv6Addr::LOCALHOST.octets();
            let ports = [client.port().to_be_bytes(), proxy.port().to_be_bytes()].concat();
            [b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24", &loopback[..], &loopback, &ports, b"GET /"].concat()
        };
        assert_eq!(receiver, expected);
    }
}

#[test]
fn reverse_keeps_urgent_bytes() {
    let started = std::cell::OnceCell::new();
    keep_urgent_bytes(|target| {
        connect(started.get_or_init(|| Program::start("reverse", &config(&[target], ""), 2)).address())
    });
}

#[test]
fn health_checks_send_a_local_header() {
    for (version, header) in [("v1", &b"PROXY UNKNOWN\r\n"[..]), ("v2", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0")] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let checked = server("127.0.0.1:0", move |mut stream| {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("the stream ends");
            sender.send(all).expect("the test still receives");
        });
        let more = format!("proxy_protocol = \"{version}\"\nhealth_interval = \"100 ms\"");
        let _proxy = Program::start("reverse", &config(&[checked], &more), 2);
        assert_eq!(receiver.recv_timeout(EVENT_TIMEOUT).expect("a check"), header);
    }
}

#[test]
fn named_server_is_looked_up() {
    let target = echo("127.0.0.1:0");
    let text = config(&[target], "")
        .replace(&target.to_string(), &format!("ip4-localhost.invalid:1\", \"localhost:{}", target.port()));
    let proxy = Program::start("reverse", &text, 2);
    assert_eq!(&exchange::<5>(&connect(proxy.address()), b"hello"), b"hello");
}

#[test]
fn failed_server_is_replaced_until_it_recovers() {
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let there = server("127.0.0.1:0", |mut stream| drop(stream.write_all(b"second")));
    let proxy = Program::start("reverse", &config(&[gone, there], "health_interval = \"100 ms\""), 2);
    assert_eq!(&exchange::<6>(&connect(proxy.address()), b""), b"second");
    proxy.line(&format!("web: server {gone} does not answer; using the other servers"));
    let back = server(&gone.to_string(), |mut stream| drop(stream.write_all(b"first!")));
    proxy.line(&format!("web: server {back} answers again"));
    assert_eq!(&exchange::<6>(&connect(proxy.address()), b""), b"first!");
}

#[test]
fn client_is_reset_without_a_server() {
    let gone = SocketAddr::from(([127, 0, 0, 1], 1));
    let proxy = Program::start("reverse", &config(&[gone], ""), 2);
    let read = (&connect(proxy.address())).read(&mut [0]);
    assert_eq!(read.expect_err("no server is there").kind(), ErrorKind::ConnectionReset);
    let config = config(&[gone], "health_interval = \"100 ms\"");
    Program::start("reverse", &config, 2)
        .line("web: server 127.0.0.1:1 does not answer; it is the only server");
    proxy.line("web: no server answers");
}

#[test]
fn bytes_pass_in_both_directions() {
    let proxy = Program::start("reverse", &config(&[echo("[::1]:0")], ""), 2);
    assert_eq!(&exchange::<5>(&connect(proxy.address()), b"hello"), b"hello");
}
