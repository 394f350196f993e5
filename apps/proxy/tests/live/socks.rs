//! SOCKS 5. The tests act as clients and servers.

use super::program::{
    EVENT_TIMEOUT, Program, connect, echo, end_first, exchange, keep_urgent_bytes, server, successor,
};
use rustix::process::{Signal, kill_process};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// A proxy's configuration that permits the tests' servers on loopback.
pub const OPEN_CONFIG: &str = "[socks]\nlisten = [\"127.0.0.1:0\"]\nallow = [\"127.0.0.0/8\", \"::1\"]\n";

/// Encodes a CONNECT request.
pub fn request(target: SocketAddr) -> Vec<u8> {
    let port = target.port().to_be_bytes();
    match target.ip() {
        IpAddr::V4(v4) => [&[5, 1, 0, 1], &v4.octets()[..], &port].concat(),
        IpAddr::V6(v6) => [&[5, 1, 0, 4], &v6.octets()[..], &port].concat(),
    }
}

pub fn request_by_name(name: &str, port: u16) -> Vec<u8> {
    [&[5, 1, 0, 3, name.len() as u8], name.as_bytes(), &port.to_be_bytes()].concat()
}

/// Sends a request to the proxy; returns the reply and the stream.
pub fn answered(proxy: &Program, request: &[u8]) -> (u8, TcpStream) {
    answered_over(connect(proxy.address()), request)
}

pub fn answered_over(stream: TcpStream, request: &[u8]) -> (u8, TcpStream) {
    assert_eq!(exchange(&stream, &[5, 1, 0]), [5, 0]);
    let [version, reply, reserved, kind] = exchange(&stream, request);
    assert_eq!((version, reserved), (5, 0));
    let address = if kind == 1 { 6 } else { 18 };
    (&stream).read_exact(&mut [0; 18][..address]).expect("an address");
    (reply, stream)
}

/// Opens a stream through the proxy.
pub fn through(proxy: &Program, target: SocketAddr) -> TcpStream {
    through_over(connect(proxy.address()), target)
}

/// Opens a stream through the proxy, over this connection.
pub fn through_over(stream: TcpStream, target: SocketAddr) -> TcpStream {
    let (reply, stream) = answered_over(stream, &request(target));
    assert_eq!(reply, 0);
    stream
}

#[test]
fn addresses_of_both_families_and_names_are_reached() {
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    let (v4, v6) = (echo("127.0.0.1:0"), echo("[::1]:0"));
    for request in
        [request(v4), request(v6), request_by_name("localhost", v4.port()), request_by_name("::1", v6.port())]
    {
        let (reply, stream) = answered(&proxy, &request);
        assert_eq!(reply, 0, "{request:?}");
        assert_eq!(&exchange::<5>(&stream, b"hello"), b"hello");
    }
}

#[test]
fn socks_keeps_urgent_bytes() {
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    keep_urgent_bytes(|target| through(&proxy, target));
}

#[test]
fn mapped_address_is_filtered_and_reached() {
    let target = echo("127.0.0.1:0");
    let mapped = SocketAddr::new("::ffff:127.0.0.1".parse().expect("an address"), target.port());
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    assert_eq!(&exchange::<5>(&through(&proxy, mapped), b"hello"), b"hello");
    for deny in ["127.0.0.0/8", "::ffff:0:0/96"] {
        let proxy = Program::start("socks", &format!("{OPEN_CONFIG}deny = [\"{deny}\"]\n"), 1);
        assert_eq!(answered(&proxy, &request(mapped)).0, 2, "{deny}");
    }
}

#[test]
fn messages_and_first_data_may_come_in_one_flight() {
    let config = format!("{OPEN_CONFIG}[[socks.user]]\nname = \"alice\"\npassword = \"secret\"\n");
    let proxy = Program::start("socks", &config, 1);
    let target = echo("127.0.0.1:0");
    let flight = [&[5, 2, 0, 2][..], b"\x01\x05alice\x06secret", &request(target), b"first data"].concat();
    let stream = connect(proxy.address());
    let answers: [u8; 24] = exchange(&stream, &flight);
    assert_eq!(answers[..8], [5, 2, 1, 0, 5, 0, 0, 1]);
    assert_eq!(&answers[14..], b"first data");
    // Messages that arrive byte by byte have the same result.
    let stream = connect(proxy.address());
    stream.set_nodelay(true).expect("TCP has the option");
    for byte in flight {
        (&stream).write_all(&[byte]).expect("the peer reads");
    }
    let mut again = [0; 24];
    (&stream).read_exact(&mut again).expect("the peer answers");
    assert_eq!((&again[..8], &again[14..]), (&answers[..8], &answers[14..]));
}

#[test]
fn wrong_login_is_refused_and_guessing_is_slow() {
    let config = format!("{OPEN_CONFIG}[[socks.user]]\nname = \"alice\"\npassword = \"secret\"\n");
    let proxy = Program::start("socks", &config, 1);
    assert_eq!(exchange(&connect(proxy.address()), &[5, 1, 0]), [5, 0xff]);
    // This check comes before others that cause log lines of the same kind: the rate limit suppresses all but the first
    // line.
    proxy.line("127.0.0.1: offers no accepted authentication method");
    let begin = Instant::now();
    for guess in [b"secreT", b"guess1", b"guess2"] {
        let stream = connect(proxy.address());
        assert_eq!(exchange(&stream, &[5, 1, 2]), [5, 2]);
        assert_eq!(exchange(&stream, &[b"\x01\x05alice\x06", &guess[..]].concat()), [1, 1]);
        assert_eq!((&stream).read(&mut [0]).expect("the stream ends"), 0);
    }
    assert!(begin.elapsed() >= Duration::from_millis(750), "{:?}", begin.elapsed());
    let stream = connect(proxy.address());
    assert_eq!(exchange(&stream, b"\x05\x01\x02\x01\x05alice\x06secret"), [5, 2, 1, 0]);
}

#[test]
fn proxy_proves_its_password_to_upstream_proxy() {
    let far = Program::start(
        "socks",
        &format!("{OPEN_CONFIG}[[socks.user]]\nname = \"alice\"\npassword = \"secret\"\n"),
        1,
    );
    let near = |password: &str| {
        let user = format!("{{ name = \"alice\", password = \"{password}\" }}");
        let via =
            format!("[socks.via]\nproxy = \"{}\"\nuser = {user}\nfrom = [\"127.0.0.2\"]\n", far.address());
        Program::start("socks", &format!("[socks]\nlisten = [\"127.0.0.1:0\"]\n{via}"), 1)
    };
    let proxy = near("secret");
    let speaks_first = server("127.0.0.1:0", |mut stream| {
        stream.write_all(b"220 hello").expect("the client reads");
        stream.read_exact(&mut [0; 4]).expect("the client writes");
    });
    let (reply, stream) = answered(&proxy, &request_by_name("localhost", speaks_first.port()));
    assert_eq!((reply, &exchange::<9>(&stream, b"quit")), (0, b"220 hello"));
    // The client receives the reply that the upstream proxy sent.
    assert_eq!(answered(&proxy, &request(SocketAddr::from(([127, 0, 0, 1], 1)))).0, 5);
    let wrong = near("Secret");
    assert_eq!(answered(&wrong, &request(speaks_first)).0, 1);
    wrong.line("refuses the user alice: wrong name or password");
    far.line("127.0.0.2: wrong name or password");
}

#[test]
fn private_servers_are_denied_by_any_name() {
    let proxy = Program::start("socks", "[socks]\nlisten = [\"127.0.0.1:0\"]", 1);
    let target = echo("127.0.0.1:0");
    for request in [
        request(target),
        request_by_name("localhost", target.port()),
        request_by_name("127.1", target.port()),
    ] {
        assert_eq!(answered(&proxy, &request).0, 2, "{request:?}");
    }
    proxy.line("not permitted: private address or denied");
}

#[test]
fn failed_requests_are_answered() {
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    let target = echo("127.0.0.1:0");
    let mut bind = request(target);
    bind[1] = 2;
    assert_eq!(answered(&proxy, &bind).0, 7);
    proxy.line("BIND and other commands are not supported; only CONNECT and UDP ASSOCIATE are");
    assert_eq!(answered(&proxy, &[5, 1, 0, 9, 0, 0]).0, 8);
    assert_eq!(answered(&proxy, &request(SocketAddr::from(([127, 0, 0, 1], 1)))).0, 5);
    assert_eq!(answered(&proxy, &request_by_name("no-such-host.invalid", 80)).0, 4);
    let stream = connect(proxy.address());
    (&stream).write_all(b"GET http://example.org/ HTTP/1.1\r\n\r\n").expect("the peer reads");
    assert_eq!((&stream).read(&mut [0]).expect("the stream ends"), 0);
}

/// Uplink probes and health checks open connections and send no byte.
#[test]
fn probe_without_bytes_is_not_logged() {
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    for _ in 0..20 {
        let stream = connect(proxy.address());
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("the stream is a socket");
    }
    connect(proxy.address()).write_all(&[9, 9]).expect("the server listens");
    let message = proxy.line("127.0.0.1:");
    assert!(message.contains("not a version of SOCKS"), "{message}");
}

#[test]
fn silent_client_is_reset() {
    let proxy = Program::start("socks", &format!("{OPEN_CONFIG}[limits]\nhandshake_timeout = \"300 ms\""), 1);
    let stream = connect(proxy.address());
    (&stream).write_all(&[5]).expect("the peer reads");
    let begin = Instant::now();
    assert_eq!((&stream).read(&mut [0]).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    assert!(begin.elapsed() < EVENT_TIMEOUT / 2);
    proxy.line("no complete request before handshake_timeout");
}

#[test]
fn open_relay_does_not_start() {
    let (status, message) = Program::config_error("socks", "[socks]\nlisten = [\"[::]:0\"]");
    assert_eq!(status, Some(2));
    assert!(
        message.contains(".toml:2: [::]:0 is open to everyone") && message.lines().count() == 1,
        "{message}"
    );
    let (status, message) = Program::config_error("socks", "");
    assert_eq!(status, Some(2));
    assert!(message.contains("the table [socks] is missing"), "{message}");
}

#[test]
fn either_end_may_end_first() {
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    end_first(|server| through(&proxy, server));
    let (sender, receiver) = std::sync::mpsc::channel();
    let first_words = server("127.0.0.1:0", move |mut stream| {
        stream.shutdown(Shutdown::Write).expect("the stream is connected");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("the client ends");
        sender.send(all.len()).expect("the test still receives");
    });
    let stream = through(&proxy, first_words);
    assert_eq!((&stream).read(&mut [0]).expect("the server has ended"), 0);
    (&stream).write_all(&vec![7; 100_000]).expect("the server still reads");
    stream.shutdown(Shutdown::Write).expect("the stream is connected");
    assert_eq!(receiver.recv_timeout(EVENT_TIMEOUT), Ok(100_000));
}

/// Waits until the socket with this port has closed and its peer has acknowledged the FIN (`FIN_WAIT2`).
fn await_reset(port: u16) {
    let begin = Instant::now();
    let gone = || {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has the file");
        table.lines().any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
            local && words.nth(1) == Some("05")
        })
    };
    while !gone() {
        assert!(begin.elapsed() < EVENT_TIMEOUT, "the proxy has not closed the connection");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A number of bytes that fits into the buffers of the kernel and the proxy together.
const BUFFERED_BYTES: usize = 300_000;

/// An end that has closed answers further data with a reset, while its earlier bytes still wait in the proxy.
#[test]
fn data_of_a_closed_server_are_delivered() {
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    let target = server("127.0.0.1:0", |mut stream| {
        stream.write_all(&vec![7; BUFFERED_BYTES]).expect("the buffers hold the bytes");
    });
    let stream = through(&proxy, target);
    await_reset(target.port());
    (&stream).write_all(b"more?").expect("the proxy reads");
    std::thread::sleep(Duration::from_millis(200));
    let mut all = Vec::new();
    (&stream).read_to_end(&mut all).expect("the server had ended");
    assert_eq!(all.len(), BUFFERED_BYTES);
}

#[test]
fn data_of_a_closed_client_are_delivered() {
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    let (sender, receiver) = std::sync::mpsc::channel();
    let (go_on, wait) = std::sync::mpsc::channel();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let target = server("127.0.0.1:0", move |mut stream| {
        wait.lock().expect("no thread panics").recv().expect("the client closes");
        stream.write_all(b"thanks").expect("the proxy reads");
        std::thread::sleep(Duration::from_millis(200));
        let mut all = Vec::new();
        sender
            .send(stream.read_to_end(&mut all).map_err(|error| error.kind()))
            .expect("the test still receives");
    });
    let stream = through(&proxy, target);
    let port = stream.local_addr().expect("the socket has an address").port();
    (&stream).write_all(&vec![7; BUFFERED_BYTES]).expect("the buffers hold the bytes");
    drop(stream);
    await_reset(port);
    go_on.send(()).expect("the server waits");
    assert_eq!(receiver.recv_timeout(EVENT_TIMEOUT), Ok(Ok(BUFFERED_BYTES)));
}

#[test]
fn slow_reader_uses_limited_memory() {
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    let (sender, receiver) = std::sync::mpsc::channel();
    let pours = server("127.0.0.1:0", move |mut stream| {
        stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout can be set");
        let (piece, mut written) = (vec![0; 1 << 20], 0);
        while let Ok(len @ 1..) = stream.write(&piece) {
            written += len;
        }
        sender.send(written).expect("the test still receives");
    });
    let before = proxy.resident();
    let stream = through(&proxy, pours);
    let written = receiver.recv_timeout(EVENT_TIMEOUT).expect("the server stops writing");
    // The bytes are in the send buffer of the server, two buffers of the proxy, and the receive buffer of the client.
    assert!(written < 24 << 20, "{written} bytes were taken");
    let grown = proxy.resident().saturating_sub(before);
    assert!(grown < 2 << 20, "{grown} bytes more");
    drop(stream);
}

#[test]
fn stopping_proxy_serves_open_connections() {
    let mut proxy = Program::start("socks", OPEN_CONFIG, 1);
    let target = echo("127.0.0.1:0");
    let stream = through(&proxy, target);
    proxy.signal(Signal::TERM);
    proxy.line("1 open connections may run until drain_timeout");
    let refused = TcpStream::connect(proxy.address()).expect_err("the proxy has closed its listener");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(&exchange::<5>(&stream, b"still"), b"still");
    drop(stream);
    assert!(proxy.wait().success());
}

#[test]
fn new_process_takes_over_and_refuses_no_client() {
    let mut proxy = Program::start("socks", OPEN_CONFIG, 1);
    let target = echo("127.0.0.1:0");
    let stream = through(&proxy, target);
    proxy.signal(Signal::HUP);
    // Clients that connect during the handover are served by the old or the new process.
    let (address, has_passed) = (proxy.address(), AtomicBool::new(false));
    let message = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_passed.load(Ordering::Relaxed) {
                let stream = through_over(connect(address), target);
                assert_eq!(&exchange::<2>(&stream, b"ok"), b"ok");
            }
        });
        let message = proxy.line("takes over the listeners");
        has_passed.store(true, Ordering::Relaxed);
        message
    });
    let process = successor(&message);
    assert_eq!(&exchange::<5>(&stream, b"still"), b"still");
    drop(stream);
    assert!(proxy.wait().success());
    assert_eq!(&exchange::<2>(&through(&proxy, target), b"ok"), b"ok");
    kill_process(process, Signal::TERM).expect("the program runs");
}

#[test]
fn client_that_waits_survives_a_takeover() {
    let mut proxy = Program::start("socks", &format!("{OPEN_CONFIG}[limits]\nmax_connections = 1\n"), 1);
    let open = through(&proxy, echo("127.0.0.1:0"));
    let waits = connect(proxy.address());
    (&waits).write_all(&[5, 1, 0]).expect("the kernel has accepted the connection");
    proxy.line("reached max_connections");
    proxy.signal(Signal::HUP);
    let process = successor(&proxy.line("takes over the listeners"));
    drop(open);
    assert_eq!(exchange(&waits, b""), [5, 0]);
    drop(waits);
    assert!(proxy.wait().success());
    kill_process(process, Signal::TERM).expect("the program runs");
}

/// The second signal comes before, while and after the new process starts.
#[test]
fn termination_during_a_takeover_ends_both_processes() {
    for pause_ms in [0, 1, 2, 3, 5] {
        let mut proxy = Program::start("socks", OPEN_CONFIG, 1);
        proxy.signal(Signal::HUP);
        std::thread::sleep(Duration::from_millis(pause_ms));
        proxy.signal(Signal::TERM);
        assert!(proxy.wait().success());
        // If the takeover came first, the signal has ended the old process alone, as its log states.
        let lines = proxy.lines_until_end();
        if let Some(line) = lines.iter().find(|line| line.contains("takes over the listeners")) {
            kill_process(successor(line), Signal::TERM).expect("the program runs");
            continue;
        }
        let end = Instant::now() + EVENT_TIMEOUT;
        while TcpStream::connect(proxy.address()).is_ok() {
            assert!(Instant::now() < end, "a process accepts after {pause_ms} ms: {lines:?}");
        }
    }
}

#[test]
fn program_continues_if_its_restart_fails() {
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    proxy.change_config("[socks]\nlisten = []");
    proxy.signal(Signal::HUP);
    proxy.line("[socks] has no address to listen on");
    proxy.line("cannot restart: the new process ended");
    assert_eq!(&exchange::<2>(&through(&proxy, echo("127.0.0.1:0")), b"ok"), b"ok");
}

/// The proxy listens on three addresses, and at most three connections may be open.
#[test]
fn idle_listeners_hold_no_connection_slot() {
    let both = OPEN_CONFIG.replace("\"127.0.0.1:0\"", "\"127.0.0.1:0\", \"[::1]:0\", \"127.0.0.2:0\"");
    let proxy =
        Program::start("socks", &format!("{both}[limits]\nmax_connections = 3\nmax_per_source = 2\n"), 3);
    let target = echo("127.0.0.1:0");
    let held = [through(&proxy, target), through(&proxy, target)];
    let mut third = connect(proxy.address());
    assert_eq!(third.read(&mut [0]).expect_err("the connection is reset").kind(), ErrorKind::ConnectionReset);
    proxy.line("127.0.0.1 has reached max_per_source open connections");
    let other = through_over(connect(proxy.addresses[1]), target);
    assert_eq!(&exchange::<2>(&other, b"ok"), b"ok");
    drop(held);
}

/// Asserts that both ends of a connection see a reset if the proxy aborts it, so both know that their data are
/// incomplete.
fn both_ends_see_a_reset(end: impl Fn(&mut Program), config: &str) {
    let mut proxy = Program::start("socks", config, 1);
    let (sender, receiver) = std::sync::mpsc::channel();
    let target = server("127.0.0.1:0", move |mut stream| {
        stream.write_all(b"x").expect("the client is there");
        let ended = stream.read(&mut [0]).map_err(|error| error.kind());
        sender.send(ended).expect("the test still receives");
    });
    let stream = through(&proxy, target);
    assert_eq!(exchange(&stream, b""), *b"x");
    end(&mut proxy);
    let client = (&stream).read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(client, Err(ErrorKind::ConnectionReset));
    assert_eq!(
        receiver.recv_timeout(EVENT_TIMEOUT).expect("the server ends"),
        Err(ErrorKind::ConnectionReset)
    );
}

#[test]
fn streams_are_reset_after_drain_timeout() {
    let end = |proxy: &mut Program| {
        proxy.signal(Signal::TERM);
        proxy.line("resetting 1 connections");
        assert!(proxy.wait().success());
    };
    both_ends_see_a_reset(end, &format!("{OPEN_CONFIG}[limits]\ndrain_timeout = \"200 ms\""));
}

#[test]
fn streams_are_reset_after_idle_timeout() {
    both_ends_see_a_reset(|_| {}, &format!("{OPEN_CONFIG}[limits]\nidle_timeout = \"400 ms\""));
}

#[test]
fn silent_clients_are_evicted_for_others() {
    let limits = "[limits]\nmax_connections = 3\nhandshake_timeout = \"1 h\"\n";
    let proxy = Program::start("socks", &format!("{OPEN_CONFIG}{limits}"), 1);
    let silent: Vec<_> = (0..6).map(|_| connect(proxy.address())).collect();
    let streams: Vec<_> = (0..3).map(|_| through(&proxy, echo("127.0.0.1:0"))).collect();
    for stream in &streams {
        assert_eq!(&exchange::<2>(stream, b"ok"), b"ok");
    }
    proxy.line("reached max_connections; reset a connection of");
    for mut stream in silent {
        assert_eq!(
            stream.read(&mut [0]).expect_err("the connection is reset").kind(),
            ErrorKind::ConnectionReset
        );
    }
}

#[test]
fn killed_proxy_resets_both_ends() {
    let end = |proxy: &mut Program| {
        proxy.signal(Signal::KILL);
        proxy.wait();
    };
    both_ends_see_a_reset(end, OPEN_CONFIG);
}

#[test]
fn clients_wait_without_free_descriptors() {
    // With a limit of 73, four connections fit: 64 descriptors are reserved, and eight connections need 18.
    let proxy = Program::start_with_descriptors(73, "socks", OPEN_CONFIG);
    let target = echo("127.0.0.1:0");
    let streams: Vec<_> = (0..4).map(|_| through(&proxy, target)).collect();
    let waits = connect(proxy.address());
    waits.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout can be set");
    (&waits).write_all(&[5, 1, 0]).expect("the kernel has accepted the connection");
    assert_eq!((&waits).read(&mut [0; 2]).expect_err("no answer").kind(), ErrorKind::WouldBlock);
    proxy.line("reached max_connections");
    for stream in &streams {
        assert_eq!(&exchange::<2>(stream, b"ok"), b"ok");
    }
    drop(streams);
    waits.set_read_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
    assert_eq!(exchange(&waits, b""), [5, 0]);
}
