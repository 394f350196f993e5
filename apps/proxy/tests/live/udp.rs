//! UDP ASSOCIATE of SOCKS 5 (RFC 1928 §7), directly and through an upstream proxy.

use super::program::{EVENT_TIMEOUT, Program, connect, exchange};
use super::socks::OPEN_CONFIG;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use tokio::time::Instant;

/// Time in which a datagram would have arrived.
const SILENCE: Duration = Duration::from_millis(300);

const UNKNOWN_PORT: [u8; 10] = [5, 3, 0, 1, 0, 0, 0, 0, 0, 0];

/// An association of a client.
struct Association {
    control: TcpStream,
    socket: UdpSocket,
    relay: SocketAddr,
}

impl Association {
    fn open(proxy: &Program) -> Self {
        let control = connect(proxy.address());
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let [version, reply, _, kind, a, b, c, d, high, low] = request(&control);
        assert_eq!((version, reply, kind), (5, 0, 1));
        let relay = SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low])));
        socket.set_read_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
        Self { control, socket, relay }
    }

    fn send(&self, head: &[u8], data: &[u8]) {
        self.socket.send_to(&[head, data].concat(), self.relay).expect("there is room");
    }

    /// Receives a datagram; returns its header and its data. `None` if none arrives in this time.
    fn receive(&self, within: Duration) -> Option<(Vec<u8>, Vec<u8>)> {
        self.socket.set_read_timeout(Some(within)).expect("a timeout can be set");
        let mut buffer = vec![0; 1 << 16];
        match self.socket.recv_from(&mut buffer) {
            Ok((len, source)) => {
                assert_eq!(source, self.relay);
                Some((buffer[..10].to_vec(), buffer[10..len].to_vec()))
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                None
            }
        }
    }
}

/// Requests an association; returns the answer.
fn request(control: &TcpStream) -> [u8; 10] {
    assert_eq!(exchange(control, &[5, 1, 0]), [5, 0]);
    exchange(control, &UNKNOWN_PORT)
}

/// Requests an association that is not used; returns the version and the reply.
fn reply(proxy: &Program) -> [u8; 2] {
    let [version, reply, ..] = request(&connect(proxy.address()));
    [version, reply]
}

/// Encodes the header of a datagram.
fn head(server: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(v4) = server else { panic!("{server} is not of IPv4") };
    [&[0, 0, 0, 1], &v4.ip().octets()[..], &v4.port().to_be_bytes()].concat()
}

fn head_by_name(name: &str, port: u16) -> Vec<u8> {
    [&[0, 0, 0, 3, name.len() as u8], name.as_bytes(), &port.to_be_bytes()].concat()
}

/// Starts a server that sends each datagram back.
pub fn echo(address: &str) -> SocketAddr {
    let socket = UdpSocket::bind(address).expect("a free port");
    let at = socket.local_addr().expect("the socket is bound");
    std::thread::spawn(move || send_back(&socket));
    at
}

/// Sends each datagram back.
pub fn send_back(socket: &UdpSocket) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok((len, source)) = socket.recv_from(&mut buffer) {
        // Ignore errors: the client may have closed its socket.
        drop(socket.send_to(&buffer[..len], source));
    }
}

/// Starts a proxy that uses `far` as its upstream proxy.
fn near(far: &Program, more: &str) -> Program {
    near_at(far.address(), more)
}

fn near_at(far: SocketAddr, more: &str) -> Program {
    let via = format!("[socks.via]\nproxy = \"{far}\"\n{more}");
    Program::start("socks", &format!("[socks]\nlisten = [\"127.0.0.1:0\"]\n{via}"), 1)
}

fn check_echo(proxy: &Program) {
    let client = Association::open(proxy);
    let (one, other) = (echo("127.0.0.1:0"), echo("127.0.0.1:0"));
    for (server, len) in [(one, 1), (other, 1200), (one, 0), (other, 65_000)] {
        let data: Vec<u8> = (0..len).map(|at: u32| (at * 7) as u8).collect();
        client.send(&head(server), &data);
        assert_eq!(client.receive(EVENT_TIMEOUT), Some((head(server), data)), "{len} bytes");
    }
    client.send(&head_by_name("localhost", one.port()), b"by name");
    assert_eq!(client.receive(EVENT_TIMEOUT), Some((head(one), b"by name".to_vec())));
}

#[test]
fn datagrams_are_relayed_both_ways() {
    let far = Program::start("socks", OPEN_CONFIG, 1);
    check_echo(&far);
    check_echo(&near(&far, ""));
    // Three proxies in a row.
    check_echo(&near(&near(&far, ""), "udp = \"stream\"\n"));
}

#[test]
fn datagrams_need_the_login() {
    let user = "user = [{ name = \"alice\", password = \"secret\" }]\n";
    let far = Program::start("socks", &format!("{OPEN_CONFIG}{user}"), 1);
    check_echo(&near(&far, "user = { name = \"alice\", password = \"secret\" }\n"));
    let wrong = near(&far, "user = { name = \"alice\", password = \"guess\" }\n");
    assert_eq!(reply(&wrong), [5, 1]);
    wrong.line("refuses the user alice: wrong name or password");
}

#[test]
fn fragments_and_strangers_are_dropped() {
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    let (client, server) = (Association::open(&proxy), echo("127.0.0.1:0"));
    let mut fragment = head(server);
    fragment[2] = 1;
    client.send(&fragment, b"fragment");
    client.send(&[0, 0, 0, 9, 1, 2], b"malformed");
    client.send(&[], b"");
    client.send(&head(server), b"whole");
    assert_eq!(client.receive(EVENT_TIMEOUT), Some((head(server), b"whole".to_vec())));
    // A second socket of the same host, and a socket of another host, belong to no association.
    for stranger in ["127.0.0.1:0", "127.0.0.9:0"] {
        let stranger = UdpSocket::bind(stranger).expect("a free port");
        stranger.send_to(&[&head(server)[..], b"stranger"].concat(), client.relay).expect("there is room");
        stranger.set_read_timeout(Some(SILENCE)).expect("a timeout can be set");
        assert_eq!(stranger.recv_from(&mut [0; 64]).expect_err("no answer").kind(), ErrorKind::WouldBlock);
    }
    assert_eq!(client.receive(SILENCE), None);
}

#[test]
fn datagrams_to_denied_servers_are_dropped() {
    let proxy = Program::start("socks", &format!("{OPEN_CONFIG}deny = [\"127.0.0.2\"]\n"), 1);
    let (client, denied) = (Association::open(&proxy), echo("127.0.0.2:0"));
    client.send(&head(denied), b"denied");
    proxy.line("not permitted: private address or denied");
    client.send(&head_by_name("no-such-host.invalid", 53), b"unknown");
    proxy.line("UDP to no-such-host.invalid");
    assert_eq!(client.receive(SILENCE), None);
}

#[test]
fn association_ends_with_its_connection() {
    let far = Program::start("socks", OPEN_CONFIG, 1);
    for proxy in [&far, &near(&far, "")] {
        let (client, server) = (Association::open(proxy), echo("127.0.0.1:0"));
        client.send(&head(server), b"first");
        assert!(client.receive(EVENT_TIMEOUT).is_some());
        // Further bytes in the connection have no meaning.
        (&client.control).write_all(b"ignored").expect("the peer reads");
        client.send(&head(server), b"second");
        assert!(client.receive(EVENT_TIMEOUT).is_some());
        client.control.shutdown(std::net::Shutdown::Write).expect("the stream is connected");
        let ended = (&client.control).read(&mut [0]);
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        client.send(&head(server), b"third");
        assert_eq!(client.receive(SILENCE), None);
    }
}

#[test]
fn udp_can_be_refused() {
    let far = Program::start("socks", &format!("{OPEN_CONFIG}udp = false\n"), 1);
    let near = near(&far, "");
    for proxy in [&far, &near] {
        assert_eq!(reply(proxy), [5, 7]);
    }
    near.line("does not relay UDP: its version is older, or its file has udp = false; TCP is not affected");
}

/// The addresses of the paths are loopback addresses.
#[test]
fn datagrams_over_paths_are_relayed_both_ways() {
    let user = "user = { name = \"alice\", password = \"secret\" }\n";
    let list = "user = [{ name = \"alice\", password = \"secret\" }]\n";
    let far = Program::start("socks", &format!("{OPEN_CONFIG}{list}"), 1);
    check_echo(&near(&far, &format!("{user}udp = \"paths\"\nfrom = [\"127.0.0.1\", \"127.0.0.2\"]\n")));
}

/// A proxy without this command answers with "command not supported".
#[test]
fn older_upstream_proxy_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("the socket is bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 13];
            drop(stream.read_exact(&mut request));
            drop(stream.write_all(&[5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0]));
        }
    });
    let near = near_at(address, "");
    assert_eq!(reply(&near), [5, 7]);
    near.line("its version is older");
}

/// An association per eight connections is permitted.
#[test]
fn number_of_associations_is_limited() {
    let proxy = Program::start("socks", &format!("{OPEN_CONFIG}[limits]\nmax_connections = 16\n"), 1);
    let held = [Association::open(&proxy), Association::open(&proxy)];
    assert_eq!(reply(&proxy), [5, 1]);
    proxy.line("too many UDP associations");
    drop(held);
    let begin = Instant::now();
    while reply(&proxy) != [5, 0] {
        assert!(begin.elapsed() < EVENT_TIMEOUT, "the associations have not ended");
    }
}
