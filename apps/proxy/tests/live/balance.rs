//! Choice of a server by balancing and by host name, and PROXY headers from clients. The tests observe clients and
//! servers.

use super::program::{Program, connect, server};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};

/// Starts a server that reads a stream to its end, and then sends its name and all that it has read.
fn named_server(name: &'static str) -> SocketAddr {
    server("127.0.0.1:0", move |mut stream| {
        let mut all = Vec::new();
        // The connection of a health check ends without a byte.
        if stream.read_to_end(&mut all).is_ok() {
            drop(stream.write_all(name.as_bytes()).and_then(|()| stream.write_all(&all)));
        }
    })
}

/// Sends bytes and returns the answer.
fn ask(proxy: SocketAddr, bytes: &[u8]) -> Result<String, ErrorKind> {
    let stream = connect(proxy);
    let mut answer = String::new();
    (&stream)
        .write_all(bytes)
        .and_then(|()| {
            // The proxy may reset the connection before this call; the read then reports the reset.
            stream.shutdown(Shutdown::Write).ok();
            (&stream).read_to_string(&mut answer)
        })
        .map(|_| answer)
        .map_err(|error| error.kind())
}

fn shares(proxy: SocketAddr, requests: u32) -> BTreeMap<String, u32> {
    let mut shares = BTreeMap::new();
    for _ in 0..requests {
        *shares.entry(ask(proxy, b"").expect("a server answers")).or_default() += 1;
    }
    shares
}

fn balanced(balance: &str, servers: &[(SocketAddr, u16)]) -> String {
    let servers: Vec<_> =
        servers.iter().map(|(to, weight)| format!("{{ to = \"{to}\", weight = {weight} }}")).collect();
    let to = servers.join(", ");
    format!("[[reverse]]\nname = \"web\"\nlisten = [\"127.0.0.1:0\"]\nto = [{to}]\nbalance = \"{balance}\"\n")
}

#[test]
fn thousand_requests_are_shared_equally() {
    let servers = ["a", "b", "c"].map(|name| (named_server(name), 1));
    for balance in ["round-robin", "least-connections"] {
        let proxy = Program::start("reverse", &balanced(balance, &servers), 1);
        let shares = shares(proxy.address(), 1000);
        // A third of 1,000 requests, with a tolerance of 5 %.
        assert!(shares.len() == 3 && shares.values().all(|share| (317..=350).contains(share)), "{shares:?}");
    }
    let proxy = Program::start("reverse", &balanced("source", &servers), 1);
    assert_eq!(shares(proxy.address(), 50).len(), 1);
}

#[test]
fn requests_follow_the_weights() {
    let servers = [("a", 3), ("b", 1), ("c", 0)].map(|(name, weight)| (named_server(name), weight));
    let proxy = Program::start("reverse", &balanced("round-robin", &servers), 1);
    let expected = BTreeMap::from([("a".to_owned(), 75), ("b".to_owned(), 25)]);
    assert_eq!(shares(proxy.address(), 100), expected);
}

#[test]
fn open_connections_are_balanced() {
    let servers = ["a", "b"].map(|name| {
        let server = server("127.0.0.1:0", move |mut stream| {
            drop(stream.write_all(name.as_bytes()).and_then(|()| stream.read(&mut [0])));
        });
        (server, 1)
    });
    let proxy = Program::start("reverse", &balanced("least-connections", &servers), 1);
    let open = || {
        let stream = connect(proxy.address());
        let mut name = [0];
        (&stream).read_exact(&mut name).expect("a server answers");
        (name[0], stream)
    };
    let mut held: Vec<_> = (0..8).map(|_| open()).collect();
    assert_eq!(held.iter().filter(|(name, _)| *name == b'a').count(), 4);
    held.extend((0..6).map(|_| open()));
    assert_eq!(held.iter().filter(|(name, _)| *name == b'a').count(), 7);
}

/// Encodes a `ClientHello` for a host, in records of 20 bytes.
fn hello(host: &str) -> Vec<u8> {
    let len = host.len() as u16;
    let lengths = [len + 9, 0, len + 5, len + 3].map(u16::to_be_bytes).concat();
    let extensions = [&lengths[..], &[0], &len.to_be_bytes(), host.as_bytes()].concat();
    let body = [&[3; 34], &[0, 0, 2, 19, 1, 1, 0][..], &extensions].concat();
    let message = [&[1, 0], &(body.len() as u16).to_be_bytes()[..], &body].concat();
    let in_record = |content: &[u8]| [&[22, 3, 1, 0, content.len() as u8], content].concat();
    message.chunks(20).flat_map(in_record).collect()
}

fn hosts(more: &str) -> String {
    let [a, b] = ["a", "b"].map(named_server);
    format!(
        "[[reverse]]\nname = \"web\"\nlisten = [\"127.0.0.1:0\"]\n{more}\n\
         [[reverse.host]]\nnames = [\"a.example\"]\nto = [\"{a}\"]\n\
         [[reverse.host]]\nnames = [\"*.b.example\"]\nto = [\"{b}\"]\n"
    )
}

#[test]
fn clients_reach_the_servers_of_their_host() {
    let other = named_server("other");
    let proxy = Program::start("reverse", &hosts(&format!("to = [\"{other}\"]")), 1);
    for (host, expected) in [("A.example", "a"), ("www.b.example", "b"), ("b.example", "other")] {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}:80\r\n\r\n");
        assert_eq!(ask(proxy.address(), head.as_bytes()), Ok(format!("{expected}{head}")));
        let hello = [&hello(host)[..], b"rest"].concat();
        let answer = ask(proxy.address(), &hello).expect("a server answers");
        assert_eq!(answer.as_bytes(), [expected.as_bytes(), &hello].concat());
    }
    assert_eq!(ask(proxy.address(), b"SSH-2.0-client\r\n"), Ok("otherSSH-2.0-client\r\n".to_owned()));
}

/// The bytes of the request arrive one after another. The server gets them after the PROXY header.
#[test]
fn request_in_pieces_follows_the_proxy_header() {
    let proxy = Program::start("reverse", &hosts("proxy_protocol = \"v1\""), 1);
    let mut stream = connect(proxy.address());
    stream.set_nodelay(true).expect("the stream is connected");
    for byte in hello("a.example") {
        stream.write_all(&[byte]).expect("the peer reads");
        std::thread::yield_now();
    }
    stream.shutdown(Shutdown::Write).expect("the stream is connected");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("a server answers");
    let header = format!(
        "aPROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n",
        stream.local_addr().expect("an address").port(),
        proxy.address().port()
    );
    assert_eq!(answer, [header.as_bytes(), &hello("a.example")].concat());
}

#[test]
fn client_without_a_known_host_is_reset() {
    let proxy = Program::start("reverse", &hosts(""), 1);
    let reset = Err(ErrorKind::ConnectionReset);
    assert_eq!(ask(proxy.address(), b"GET / HTTP/1.1\r\nHost: c.example\r\n\r\n"), reset);
    proxy.line("web: no servers for the host c.example that 127.0.0.1 requests");
    assert_eq!(ask(proxy.address(), &hello("c.example")), reset);
    assert_eq!(ask(proxy.address(), &[22, 3, 1, 0, 0]), reset);
    proxy.line("web: 127.0.0.1 sent a TLS record of invalid length");
}

#[test]
fn long_request_is_reset() {
    let proxy = Program::start("reverse", &hosts(""), 1);
    let head = format!("GET / HTTP/1.1\r\na: {}\r\nHost: a.example\r\n\r\n", "b".repeat(16 << 10));
    assert!(ask(proxy.address(), head.as_bytes()).is_err());
    proxy.line("web: 127.0.0.1 sent more than 16384 bytes without a host name");
    let head = format!("GET / HTTP/1.1\r\na: {}\r\nHost: a.example\r\n\r\n", "b".repeat(15 << 10));
    assert_eq!(ask(proxy.address(), head.as_bytes()), Ok(format!("a{head}")));
}

#[test]
fn slow_request_is_reset() {
    let proxy = Program::start("reverse", &hosts(""), 1);
    let stream = connect(proxy.address());
    (&stream).write_all(b"GET /").expect("the peer reads");
    let read = (&stream).read(&mut [0]).expect_err("the connection is reset").kind();
    assert_eq!(read, ErrorKind::ConnectionReset);
    proxy.line("web: 127.0.0.1 sent no complete PROXY header, ClientHello or HTTP head in time");
}

#[test]
fn invalid_balance_ends_with_status_2() {
    let weightless = balanced("round-robin", &[(SocketAddr::from(([127, 0, 0, 1], 1)), 0)]);
    let (status, message) = Program::config_error("reverse", &weightless);
    assert_eq!(status, Some(2));
    assert!(message.contains(":4: all servers of this list have weight 0") && message.lines().count() == 1);
}

/// Returns the configuration of a reverse proxy with one server, which accepts PROXY headers from these networks.
fn accepting(networks: &str, more: &str) -> String {
    format!("{}accept_proxy = [{networks}]\n{more}", balanced("source", &[(named_server("a"), 1)]))
}

#[test]
fn address_in_a_proxy_header_is_passed_on() {
    let proxy = Program::start("reverse", &accepting("\"127.0.0.0/8\"", "proxy_protocol = \"v1\""), 1);
    let line = "PROXY TCP6 2001:db8::1 2001:db8::2 1000 443\r\nGET /";
    assert_eq!(ask(proxy.address(), line.as_bytes()), Ok(format!("a{line}")));
    let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\x01\x02\x03\x0a\x00\x00\x01\x03\xe8\x01\xbbGET /";
    let expected = "aPROXY TCP4 10.1.2.3 10.0.0.1 1000 443\r\nGET /".to_owned();
    assert_eq!(ask(proxy.address(), binary), Ok(expected));
    // The header is that of another proxy's health check.
    let local = ask(proxy.address(), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0").expect("a server answers");
    assert!(local.starts_with("aPROXY TCP4 127.0.0.1 127.0.0.1 "), "{local}");
}

#[test]
fn proxy_header_is_required_from_its_sources() {
    let proxy = Program::start("reverse", &accepting("\"127.0.0.1\"", ""), 1);
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"PROXY TCP4 1 2 3 4\r\n"] {
        assert_eq!(ask(proxy.address(), bytes), Err(ErrorKind::ConnectionReset));
    }
    proxy.line("web: 127.0.0.1 sent no PROXY header");
}

#[test]
fn proxy_header_of_other_sources_is_refused() {
    let proxy = Program::start("reverse", &accepting("\"192.0.2.0/24\"", "proxy_protocol = \"v1\""), 1);
    let forged = b"PROXY TCP4 10.1.2.3 10.0.0.1 1000 443\r\nGET /";
    assert!(ask(proxy.address(), forged).is_err());
    proxy.line("web: 127.0.0.1 sent a PROXY header, but is not in accept_proxy");
    for bytes in ["POST / HTTP/1.1\r\n", "PROX", ""] {
        let answer = ask(proxy.address(), bytes.as_bytes()).expect("a server answers");
        assert!(answer.starts_with("aPROXY TCP4 127.0.0.1 ") && answer.ends_with(bytes), "{answer}");
    }
}

/// In some protocols the server sends first. Its bytes reach the client before the client has sent any.
#[test]
fn servers_may_send_first_with_accept_proxy() {
    let greeting = server("127.0.0.1:0", |mut stream| {
        drop(stream.write_all(b"220"));
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all).and_then(|_| stream.write_all(&all)));
    });
    let config = balanced("source", &[(greeting, 1)]) + "accept_proxy = [\"192.0.2.1\"]\n";
    let proxy = Program::start("reverse", &config, 1);
    let stream = connect(proxy.address());
    let mut answer = [0; 3];
    (&stream).read_exact(&mut answer).expect("the server sends first");
    (&stream).write_all(b"PEHLO").expect("the peer reads");
    stream.shutdown(Shutdown::Write).expect("the stream is connected");
    let mut rest = String::new();
    (&stream).read_to_string(&mut rest).expect("the server answers");
    assert_eq!((&answer, &*rest), (b"220", "PEHLO"));
}

#[test]
fn host_name_follows_a_proxy_header() {
    let proxy = Program::start("reverse", &hosts("accept_proxy = [\"127.0.0.1\"]"), 1);
    let request = "GET / HTTP/1.1\r\nHost: www.b.example\r\n\r\n";
    let sent = format!("PROXY TCP4 10.1.2.3 10.0.0.1 1000 443\r\n{request}");
    assert_eq!(ask(proxy.address(), sent.as_bytes()), Ok(format!("b{request}")));
}
