//! Reverse proxies as clients and servers see them.

use super::program::{Program, connect, echo, exchange, server};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};

fn config(to: &[SocketAddr], more: &str) -> String {
    let to: Vec<_> = to.iter().map(|address| format!("\"{address}\"")).collect();
    let to = to.join(", ");
    format!("[[reverse]]\nname = \"web\"\nlisten = [\"127.0.0.1:0\", \"[::1]:0\"]\nto = [{to}]\n{more}")
}

#[test]
fn servers_are_told_who_the_client_is() {
    let tells = server("127.0.0.1:0", |mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("the client ends");
        stream.write_all(&all).expect("the client reads");
    });
    for (version, listener) in [("v1", 0), ("v2", 1)] {
        let program =
            Program::start("reverse", &config(&[tells], &format!("proxy_protocol = \"{version}\"")), 2);
        let stream = connect(program.addresses[listener]);
        let [client, proxy] =
            [stream.local_addr(), stream.peer_addr()].map(|address| address.expect("it has one"));
        (&stream).write_all(b"GET /").expect("it reads");
        stream.shutdown(std::net::Shutdown::Write).expect("it is connected");
        let mut told = Vec::new();
        (&stream).read_to_end(&mut told).expect("the server ends");
        let expected = if version == "v1" {
            format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\nGET /", client.port(), proxy.port()).into_bytes()
        } else {
            let loopback = std::net::Ipv6Addr::LOCALHOST.octets();
            let ports = [client.port().to_be_bytes(), proxy.port().to_be_bytes()].concat();
            [b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24", &loopback[..], &loopback, &ports, b"GET /"].concat()
        };
        assert_eq!(told, expected);
    }
}

#[test]
fn another_server_takes_the_place_of_one_that_is_gone_until_it_is_back() {
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let there = server("127.0.0.1:0", |mut stream| drop(stream.write_all(b"second")));
    let proxy = Program::start("reverse", &config(&[gone, there], "health_interval = \"100 ms\""), 2);
    assert_eq!(&exchange::<6>(&connect(proxy.address()), b""), b"second");
    proxy.line(&format!("web: the server {gone} does not answer"));
    let back = server(&gone.to_string(), |mut stream| drop(stream.write_all(b"first!")));
    proxy.line(&format!("web: the server {back} is there again"));
    assert_eq!(&exchange::<6>(&connect(proxy.address()), b""), b"first!");
}

#[test]
fn without_any_server_the_client_is_reset() {
    let gone = SocketAddr::from(([127, 0, 0, 1], 1));
    let proxy = Program::start("reverse", &config(&[gone], ""), 2);
    let read = (&connect(proxy.address())).read(&mut [0]);
    assert_eq!(read.expect_err("nobody is there").kind(), ErrorKind::ConnectionReset);
    proxy.line("web: no server answers");
}

#[test]
fn bytes_pass_both_ways() {
    let proxy = Program::start("reverse", &config(&[echo("[::1]:0")], ""), 2);
    assert_eq!(&exchange::<5>(&connect(proxy.address()), b"hello"), b"hello");
}
