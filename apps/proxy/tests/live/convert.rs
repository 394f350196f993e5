//! The Convert Protocol (RFC 8803): the program as a client and as a converter.

use super::program::{
    EVENT_TIMEOUT, Program, connect, echo, end_first, exchange, keep_urgent_bytes, server, successor,
};
use super::socks::{answered, request, request_by_name, through, through_over};
use anabranch_proxy::convert::{ErrorCode, TcpOption, Tlv, emit, parse};
use anabranch_testkit::namespace::{Need, machine_has};
use rustix::process::{Signal, kill_process};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use tokio::time::Instant;

/// A converter's configuration that permits the tests' servers on loopback.
pub const CONVERTER: &str = "[convert]\nlisten = [\"127.0.0.1:0\"]\nallow = [\"127.0.0.0/8\", \"::1\"]\n";
const ALICE: &str = "[[convert.user]]\nname = \"alice\"\npassword = \"secret\"\n";

/// Encodes a request for a connection.
fn connect_to(target: SocketAddr) -> Vec<u8> {
    emit(&[Tlv::Connect { server: target, options: Vec::new() }]).expect("the message is short")
}

/// Reads the message at the start of a stream.
fn message(mut stream: &TcpStream) -> Vec<Tlv> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).expect("the peer answers");
    let mut rest = vec![0; usize::from(head[1]) * 4 - 4];
    stream.read_exact(&mut rest).expect("the peer answers");
    let (tlvs, len) =
        parse(&[&head[..], &rest].concat()).expect("a message").expect("the message is complete");
    assert_eq!(len, rest.len() + 4);
    tlvs
}

/// Sends bytes to a converter; returns its answer and the stream.
fn answer(converter: &Program, bytes: &[u8]) -> (Vec<Tlv>, TcpStream) {
    let stream = connect(converter.address());
    (&stream).write_all(bytes).expect("the peer reads");
    (message(&stream), stream)
}

/// Sends bytes to a converter; returns the error in its answer. Asserts that the stream ends after the answer.
fn error(converter: &Program, bytes: &[u8]) -> (ErrorCode, Vec<u8>) {
    let (tlvs, mut stream) = answer(converter, bytes);
    let [Tlv::Error(code, value)] = tlvs.as_slice() else { panic!("{tlvs:?} is no error") };
    assert_eq!(stream.read(&mut [0]).expect("the stream ends"), 0);
    (*code, value.clone())
}

/// Removes trailing zeros, as the converter's parser does for values.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..len]
}

fn is_connected(tlvs: &[Tlv]) -> bool {
    matches!(tlvs, [Tlv::ExtendedTcpHeader(_)])
}

/// Requests a connection through a converter.
fn request_over(converter: SocketAddr, target: SocketAddr) -> TcpStream {
    let stream = connect(converter);
    (&stream).write_all(&connect_to(target)).expect("the peer reads");
    stream
}

/// Opens a stream through a converter, over this connection.
pub fn connected_over(stream: TcpStream, target: SocketAddr) -> TcpStream {
    (&stream).write_all(&connect_to(target)).expect("the peer reads");
    assert!(is_connected(&message(&stream)));
    stream
}

/// Starts a SOCKS proxy with an upstream converter.
fn by(converter: SocketAddr, more: &str) -> Program {
    let via = format!("[socks.via]\nproxy = \"{converter}\"\nprotocol = \"convert\"\n{more}");
    Program::start("socks", &format!("[socks]\nlisten = [\"127.0.0.1:0\"]\n{via}"), 1)
}

/// Returns the option kinds that the kernel's settings enable for SYNs of TCP: window scale, SACK permitted,
/// timestamps.
fn options_of_tcp() -> Vec<u8> {
    let is_on = |name: &str| {
        let value =
            std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).expect("Linux has the file");
        value.trim() != "0"
    };
    let all = [(3, "tcp_window_scaling"), (4, "tcp_sack"), (8, "tcp_timestamps")];
    all.into_iter().filter(|(_, name)| is_on(name)).map(|(kind, _)| kind).collect()
}

/// Returns the option kinds of TCP, and that of Multipath TCP.
fn options_of_multipath_tcp() -> Vec<u8> {
    [options_of_tcp(), vec![30]].concat()
}

#[test]
fn data_are_sent_with_the_connect_message() {
    let converter = Program::start("convert", CONVERTER, 1);
    for target in [echo("127.0.0.1:0"), echo("[::1]:0")] {
        let flight = [&connect_to(target)[..], b"first data"].concat();
        let (tlvs, stream) = answer(&converter, &flight);
        let [Tlv::ExtendedTcpHeader(options)] = tlvs.as_slice() else { panic!("{tlvs:?}") };
        // The server is a Linux kernel, which answers with these options.
        let kinds: Vec<u8> = options.iter().map(|option| option.kind).collect();
        assert_eq!(kinds, options_of_tcp());
        assert!(options.iter().all(|option| option.value.len() == usize::from(option.kind == 3)));
        assert_eq!(&exchange::<10>(&stream, b""), b"first data");
        // A message that arrives byte by byte has the same result.
        let stream = connect(converter.address());
        stream.set_nodelay(true).expect("TCP has the option");
        for byte in flight {
            (&stream).write_all(&[byte]).expect("the peer reads");
        }
        assert!(is_connected(&message(&stream)));
        assert_eq!(&exchange::<10>(&stream, b""), b"first data");
    }
}

#[test]
fn converter_lists_supported_options() {
    if !machine_has(&[Need::Mptcp]) {
        return;
    }
    let converter = Program::start("convert", CONVERTER, 1);
    let target = echo("127.0.0.1:0");
    let (tlvs, mut stream) = answer(&converter, &emit(&[Tlv::Info]).expect("the message is short"));
    let [Tlv::SupportedTcpExtensions(kinds)] = tlvs.as_slice() else { panic!("{tlvs:?}") };
    assert_eq!(kinds.as_slice(), options_of_multipath_tcp());
    assert_eq!(stream.read(&mut [0]).expect("the stream ends"), 0);
    let with = |options: &[(u8, &[u8])]| {
        let options = options.iter().map(|(kind, value)| TcpOption { kind: *kind, value: value.to_vec() });
        let connect = Tlv::Connect { server: target, options: options.collect() };
        emit(&[Tlv::Info, connect]).expect("the message is short")
    };
    // Multipath TCP is requested, but the server supports only TCP.
    let (tlvs, stream) = answer(&converter, &with(&[(30, &[]), (4, &[])]));
    let [Tlv::SupportedTcpExtensions(_), Tlv::ExtendedTcpHeader(options)] = tlvs.as_slice() else {
        panic!("{tlvs:?}")
    };
    assert!(options.iter().all(|option| option.kind != 30));
    assert_eq!(&exchange::<5>(&stream, b"hello"), b"hello");
    // Multipath TCP is requested, and the server supports it.
    let (domain, stream) = (socket2::Domain::IPV4, socket2::Type::STREAM);
    let listener = socket2::Socket::new(domain, stream, Some(socket2::Protocol::MPTCP))
        .expect("the kernel has Multipath TCP");
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("there is a free port");
    listener.listen(1).expect("the socket is bound");
    let server = listener.local_addr().expect("the socket is bound").as_socket().expect("an address");
    let option = TcpOption { kind: 30, value: Vec::new() };
    let asked =
        emit(&[Tlv::Connect { server, options: vec![option.clone()] }]).expect("the message is short");
    let (tlvs, _) = answer(&converter, &asked);
    let [Tlv::ExtendedTcpHeader(options)] = tlvs.as_slice() else { panic!("{tlvs:?}") };
    assert_eq!(options.iter().map(|option| option.kind).collect::<Vec<_>>(), options_of_multipath_tcp());
    assert_eq!(options.last(), Some(&option));
    // A Fast Open cookie, and an option with a value that only the kernel can choose.
    let (code, kinds) = error(&converter, &with(&[(34, &[1, 2, 3, 4]), (4, &[]), (30, &[0, 1])]));
    assert_eq!((code, kinds), (ErrorCode::UnsupportedTcpOption, vec![30, 34]));
    assert_eq!(error(&converter, &with(&[(1, &[])])).0, ErrorCode::MalformedMessage);
}

#[test]
fn failures_have_the_codes_of_the_rfc() {
    let config = CONVERTER.replace("\"127.0.0.0/8\"", "\"127.0.0.1\", \"255.255.255.255\"");
    let converter = Program::start("convert", &config, 1);
    let to = |text: &str| connect_to(text.parse().expect("an address"));
    assert_eq!(error(&converter, &to("127.0.0.1:1")), (ErrorCode::ConnectionReset, vec![]));
    // Multicast and loopback addresses are forbidden as servers. The Error TLV contains the message after a zero byte.
    for address in ["127.0.0.2:80", "239.1.1.1:80", "[ff02::1]:80", "[::ffff:127.0.0.2]:80"] {
        let bytes = to(address);
        let (code, value) = error(&converter, &bytes);
        assert_eq!((code, &value), (ErrorCode::MalformedMessage, &[&[0], &bytes[..]].concat()), "{address}");
    }
    for address in
        ["10.0.0.1:80", "169.254.169.254:80", "[fd00::1]:80", "[2002:a00:1::]:80", "192.168.1.1:80"]
    {
        assert_eq!(error(&converter, &to(address)), (ErrorCode::NotAuthorized, vec![]), "{address}");
    }
    converter.line("is not permitted: private address or denied; see allow and deny in [convert]");
    // TCP cannot connect to a broadcast address: the kernel reports an unreachable network.
    assert_eq!(error(&converter, &to("255.255.255.255:80")), (ErrorCode::DestinationUnreachable, vec![]));
    let near = by(converter.address(), "");
    for (address, reply) in
        [("255.255.255.255:80", 3), ("127.0.0.1:1", 5), ("127.0.0.2:80", 2), ("10.0.0.1:80", 2)]
    {
        assert_eq!(answered(&near, &request(address.parse().expect("an address"))).0, reply, "{address}");
    }
    for tlv in [
        Tlv::ExtendedTcpHeader(Vec::new()),
        Tlv::SupportedTcpExtensions(vec![30]),
        Tlv::Error(ErrorCode::NotAuthorized, Vec::new()),
        Tlv::Other(0, vec![1, 1]),
        Tlv::Other(200, vec![1, 2]),
    ] {
        let bytes = emit(&[tlv, Tlv::Info]).expect("the message is short");
        let (code, value) = error(&converter, &bytes);
        assert_eq!((code, &value[1..]), (ErrorCode::UnsupportedMessage, without_zeros(&bytes)));
    }
}

#[test]
fn hostile_messages_do_not_affect_the_next_client() {
    let converter = Program::start("convert", CONVERTER, 1);
    let target = echo("127.0.0.1:0");
    let first = connect_to(target);
    let twice = [&first[..4], &first[4..], &first[4..]].concat();
    let twice = [&[1, 11], &twice[2..]].concat();
    for (bytes, code) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], ErrorCode::UnsupportedVersion),
        (&[2, 1, 0x22, 0x63], ErrorCode::UnsupportedVersion),
        (&[1, 9, 0x22, 0x64], ErrorCode::MalformedMessage),
        (&[1, 1, 0x22, 0x63], ErrorCode::MalformedMessage),
        (&[1, 2, 0x22, 0x63, 10, 9, 0, 0], ErrorCode::MalformedMessage),
        (&[1, 2, 0x22, 0x63, 10, 0, 0, 0], ErrorCode::MalformedMessage),
        (&[1, 2, 0x22, 0x63, 10, 1, 0, 80], ErrorCode::MalformedMessage),
        (&[1, 3, 0x22, 0x63, 1, 2, 0, 0, 0, 0, 0, 0], ErrorCode::MalformedMessage),
        (&twice, ErrorCode::MalformedMessage),
    ] {
        let (report, value) = error(&converter, bytes);
        assert_eq!(report, code, "{bytes:?}");
        if code == ErrorCode::UnsupportedVersion {
            assert_eq!(value, [1]);
        }
    }
    // A message has the maximum length, and its copy in the Error TLV is shortened so that it fits.
    let longest = [&[1, 255, 0x22, 0x63, 200, 254, 7, 7][..], &[7; 1012]].concat();
    let (code, value) = error(&converter, &longest);
    assert_eq!((code, value[1..].to_vec()), (ErrorCode::UnsupportedMessage, longest[..1012].to_vec()));
    // A message with a length of zero is answered with a reset (§6.1), and so is an incomplete one.
    let mut stream = connect(converter.address());
    stream.write_all(&[1, 0, 0x22, 0x63]).expect("the peer reads");
    assert_eq!(stream.read(&mut [0]).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    let mut stream = connect(converter.address());
    stream.write_all(&first[..9]).expect("the peer reads");
    stream.shutdown(Shutdown::Write).expect("the stream is connected");
    assert_eq!(stream.read(&mut [0]).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    assert!(is_connected(&answer(&converter, &first).0));
}

#[test]
fn slow_request_is_closed_at_timeout() {
    let config = format!("{CONVERTER}[limits]\nhandshake_timeout = \"300 ms\"");
    let converter = Program::start("convert", &config, 1);
    let begin = Instant::now();
    let stream = connect(converter.address());
    let dripped = connect_to(echo("127.0.0.1:0"))
        .iter()
        .take_while(|&&byte| {
            std::thread::sleep(Duration::from_millis(50));
            (&stream).write_all(&[byte]).is_ok()
        })
        .count();
    assert!(dripped < 20, "{dripped} bytes in {:?}", begin.elapsed());
    assert!(begin.elapsed() < EVENT_TIMEOUT / 2);
    converter.line("no complete request before handshake_timeout");
}

#[test]
fn open_converter_does_not_start() {
    for (more, report) in [
        ("", ".toml:2: [::]:0 is open to everyone"),
        ("cookies = true\n", "is open to everyone"),
        ("clients = [\"0.0.0.0/0\"]\n", ".toml:3: 0.0.0.0/0 contains every address"),
        (&format!("cookies = true\n{ALICE}"), "cookies = true exclude each other"),
    ] {
        let (status, config_error) =
            Program::config_error("convert", &format!("[convert]\nlisten = [\"[::]:0\"]\n{more}"));
        assert_eq!(status, Some(2));
        assert!(config_error.contains(report) && config_error.lines().count() == 1, "{config_error}");
    }
    assert!(Program::config_error("convert", "").1.contains("the table [convert] is missing"));
}

#[test]
fn clients_of_other_networks_get_an_error_at_once() {
    let config = CONVERTER.replace("127.0.0.1:0", "0.0.0.0:0") + "clients = [\"127.0.0.1\"]\n";
    let converter = Program::start("convert", &config, 1);
    let target = echo("127.0.0.1:0");
    let port = converter.address().port();
    let here = connect(SocketAddr::from(([127, 0, 0, 1], port)));
    (&here).write_all(&connect_to(target)).expect("the peer reads");
    assert!(is_connected(&message(&here)));
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a TCP socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).expect("the address is local");
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into()).expect("the server listens");
    let other = TcpStream::from(socket);
    assert_eq!(message(&other), [Tlv::Error(ErrorCode::NotAuthorized, Vec::new())]);
}

#[test]
fn cookie_is_required_and_bound_to_the_address() {
    let converter = Program::start("convert", &format!("{CONVERTER}cookies = true\n"), 1);
    let target = echo("127.0.0.1:0");
    let (tlvs, _) = answer(&converter, &[&connect_to(target)[..], b"early"].concat());
    let [Tlv::Error(ErrorCode::MissingCookie, value), Tlv::Cookie(cookie)] = tlvs.as_slice() else {
        panic!("{tlvs:?}")
    };
    assert_eq!((cookie.len(), value[0]), (16, 0));
    assert!(cookie.starts_with(&value[1..]));
    let with = |cookie: &[u8]| {
        let connect = Tlv::Connect { server: target, options: Vec::new() };
        emit(&[connect, Tlv::Cookie(cookie.to_vec())]).expect("the message is short")
    };
    assert!(is_connected(&answer(&converter, &with(cookie)).0));
    let mut wrong = cookie.clone();
    wrong[0] ^= 1;
    for wrong in [&wrong[..], &cookie[..12], &[], &[cookie.as_slice(), &[0; 4]].concat()] {
        assert_eq!(error(&converter, &with(wrong)).0, ErrorCode::NotAuthorized, "{wrong:?}");
    }
    converter.line("the cookie is invalid or expired");
    // The client stores the cookie from the converter's first answer and uses it. After a restart of the converter, the
    // client gets a new one.
    let near = by(converter.address(), "");
    for _ in 0..2 {
        assert_eq!(&exchange::<5>(&through(&near, target), b"hello"), b"hello");
    }
    let text =
        format!("{CONVERTER}cookies = true\n").replace("127.0.0.1:0", &converter.address().to_string());
    drop(converter);
    let _again = Program::start("convert", &text, 1);
    assert_eq!(&exchange::<5>(&through(&near, target), b"hello"), b"hello");
}

#[test]
fn proxy_proves_its_password_to_converter() {
    let converter = Program::start("convert", &format!("{CONVERTER}{ALICE}"), 1);
    let near = |password: &str| {
        let user = format!("user = {{ name = \"alice\", password = \"{password}\" }}\n");
        by(converter.address(), &format!("{user}from = [\"127.0.0.2\"]\n"))
    };
    let proxy = near("secret");
    let speaks_first = server("127.0.0.1:0", |mut stream| {
        stream.write_all(b"220 hello").expect("the client reads");
        stream.read_exact(&mut [0; 4]).expect("the client writes");
    });
    // The client looks up the name, which has two addresses; only one of them has a server.
    let (reply, stream) = answered(&proxy, &request_by_name("localhost", speaks_first.port()));
    assert_eq!((reply, &exchange::<9>(&stream, b"quit")), (0, b"220 hello"));
    // The client of the proxy gets the SOCKS reply for the converter's error.
    assert_eq!(answered(&proxy, &request(SocketAddr::from(([127, 0, 0, 1], 1)))).0, 5);
    assert_eq!(answered(&proxy, &request("10.0.0.1:80".parse().expect("an address"))).0, 2);
    assert_eq!(answered(&proxy, &request("[ff02::1]:80".parse().expect("an address"))).0, 2);
    assert_eq!(answered(&proxy, &request_by_name("no-such-host.invalid", 80)).0, 4);
    let wrong = near("Secret");
    assert_eq!(answered(&wrong, &request(speaks_first)).0, 2);
    converter.line("127.0.0.2: wrong name or password");
    let stranger = by(converter.address(), "");
    assert_eq!(answered(&stranger, &request(speaks_first)).0, 1);
    stranger.line("refuses the cookies that it sent; if it requires a user");
}

/// This converter answers only after it has read data of the client. So the test passes only if the data are sent with
/// the message.
#[test]
fn early_data_are_sent_with_convert_message() {
    let target: SocketAddr = "192.0.2.1:80".parse().expect("an address");
    let (sender, receiver) = channel();
    let waits = server("127.0.0.1:0", move |mut stream| {
        let mut flight = vec![0; connect_to(target).len() + 10];
        stream.read_exact(&mut flight).expect("all bytes arrive");
        let answer = emit(&[Tlv::ExtendedTcpHeader(Vec::new())]).expect("the message is short");
        stream.write_all(&[&answer[..], b"thanks"].concat()).expect("the peer reads");
        let mut more = Vec::new();
        stream.read_to_end(&mut more).expect("the stream ends");
        sender.send((flight, more)).expect("the test still receives");
    });
    let near = by(waits, "");
    let stream = connect(near.address());
    let flight = [&[5, 1, 0][..], &request(target), b"first data"].concat();
    let answers: [u8; 18] = exchange(&stream, &flight);
    assert_eq!((&answers[..4], &answers[12..]), (&[5, 0, 5, 0][..], &b"thanks"[..]));
    stream.shutdown(Shutdown::Write).expect("the stream is connected");
    assert_eq!((&stream).read(&mut [0]).expect("the stream ends"), 0);
    // Data that were sent with the message are not sent a second time.
    let came = receiver.recv_timeout(EVENT_TIMEOUT).expect("the converter saw the end");
    assert_eq!(came, ([&connect_to(target)[..], b"first data"].concat(), Vec::new()));
}

/// Starts a relay to a converter, which records the first message of each connection.
fn record(converter: SocketAddr) -> (SocketAddr, Receiver<Vec<u8>>) {
    let (sender, receiver) = channel();
    let between = server("127.0.0.1:0", move |mut near| {
        let mut far = connect(converter);
        let mut bytes = vec![0; 4];
        near.read_exact(&mut bytes).expect("a message");
        bytes.resize(usize::from(bytes[1]) * 4, 0);
        near.read_exact(&mut bytes[4..]).expect("a message");
        far.write_all(&bytes).expect("the peer reads");
        sender.send(bytes).expect("the test still receives");
        let (mut from, mut to) = (near.try_clone().expect("a copy"), far.try_clone().expect("a copy"));
        std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
        drop(std::io::copy(&mut far, &mut near));
    });
    (between, receiver)
}

#[test]
fn replayed_proof_is_refused() {
    let converter = Program::start("convert", &format!("{CONVERTER}{ALICE}"), 1);
    let (between, messages) = record(converter.address());
    let near = by(between, "user = { name = \"alice\", password = \"secret\" }\n");
    let (target, other) = (echo("127.0.0.1:0"), echo("127.0.0.1:0"));
    assert_eq!(&exchange::<5>(&through(&near, target), b"hello"), b"hello");
    // The first proof has no epoch, so the answer contains the converter's. Both proofs are refused when they are
    // replayed; the second is also refused with another server.
    let [first, second] =
        [(); 2].map(|()| messages.recv_timeout(EVENT_TIMEOUT).expect("the converter recorded the message"));
    assert!(!second.windows(6).any(|bytes| bytes == b"secret"));
    let (tlvs, _) = answer(&converter, &first);
    assert!(matches!(tlvs.as_slice(), [Tlv::Error(ErrorCode::MissingCookie, _), Tlv::Cookie(_)]), "{tlvs:?}");
    assert_eq!(error(&converter, &second), (ErrorCode::NotAuthorized, vec![]));
    let (mut tlvs, _) = parse(&second).expect("a message").expect("the message is complete");
    tlvs[0] = Tlv::Connect { server: other, options: Vec::new() };
    assert_eq!(error(&converter, &emit(&tlvs).expect("the message is short")).0, ErrorCode::NotAuthorized);
    converter.line("127.0.0.1: wrong name or password");
}

#[test]
fn waiting_clients_use_little_memory() {
    const CLIENTS: u64 = 400;
    let converter = Program::start("convert", CONVERTER, 1);
    let target = echo("127.0.0.1:0");
    let stream = || connected_over(connect(converter.address()), target);
    // While the first clients connect, the converter allocates memory that all connections share.
    let first: Vec<_> = (0..50).map(|_| stream()).collect();
    let before = converter.resident();
    let idle: Vec<_> = (0..CLIENTS).map(|_| stream()).collect();
    let of_idle = converter.resident().saturating_sub(before) / CLIENTS;
    assert!(of_idle < 16 << 10, "{of_idle} bytes for an idle connection");
    // Each client sends a message of the maximum length without its last byte.
    let almost = [&[1, 255, 0x22, 0x63, 200, 254][..], &[7; 1013]].concat();
    let before = converter.resident();
    let begun: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let stream = connect(converter.address());
            (&stream).write_all(&almost).expect("the peer reads");
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let of_begun = converter.resident().saturating_sub(before) / CLIENTS;
    assert!(of_begun < 16 << 10, "{of_begun} bytes for a message that is not whole");
    eprintln!("{of_idle} bytes for an idle connection, {of_begun} for one that has begun");
    assert_eq!(&exchange::<5>(&stream(), b"hello"), b"hello");
    drop((first, idle, begun));
}

#[test]
fn either_end_may_end_first_or_reset() {
    let converter = Program::start("convert", CONVERTER, 1);
    let near = by(converter.address(), "");
    end_first(|server| through(&near, server));
    let resets = server("127.0.0.1:0", |mut stream| {
        stream.read_exact(&mut [0]).expect("the client writes");
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("TCP has the option");
    });
    let mut stream = through(&near, resets);
    stream.write_all(&[1]).expect("the peer reads");
    assert_eq!(stream.read(&mut [0]).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
}

/// The new process has another key and another epoch. Clients receive a cookie or the epoch with its answers.
#[test]
fn new_process_takes_over_and_clients_continue() {
    for (mode, user) in
        [("cookies = true\n", ""), (ALICE, "user = { name = \"alice\", password = \"secret\" }\n")]
    {
        let mut converter = Program::start("convert", &format!("{CONVERTER}{mode}"), 1);
        let near = by(converter.address(), user);
        let target = echo("127.0.0.1:0");
        let before = through(&near, target);
        converter.signal(Signal::HUP);
        let process = successor(&converter.line("takes over the listeners"));
        assert_eq!(&exchange::<2>(&through(&near, target), b"ok"), b"ok");
        assert_eq!(&exchange::<5>(&before, b"still"), b"still");
        drop(before);
        assert!(converter.wait().success());
        assert_eq!(&exchange::<2>(&through(&near, target), b"ok"), b"ok");
        kill_process(process, Signal::TERM).expect("the program runs");
    }
}

/// Ends the clients of a test, also if the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A client whose cookie or epoch is of one process repeats its request. Both processes must not accept at the same time:
/// the repetition could reach the other one, and again.
#[test]
fn takeovers_under_load_fail_no_request() {
    const TAKEOVERS: usize = 4;
    const CLIENTS: usize = 3;
    /// Requests between two takeovers.
    const REQUESTS: usize = 20;
    for (mode, user) in
        [("cookies = true\n", ""), (ALICE, "user = { name = \"alice\", password = \"secret\" }\n")]
    {
        let mut converter = Program::start("convert", &format!("{CONVERTER}{mode}"), 1);
        let near = by(converter.address(), user);
        let (address, target) = (near.address(), echo("127.0.0.1:0"));
        let (ended, served) = (AtomicBool::new(false), AtomicUsize::new(0));
        let mut process = None;
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    scope.spawn(|| {
                        while !ended.load(Ordering::Relaxed) {
                            let stream = through_over(connect(address), target);
                            assert_eq!(&exchange::<2>(&stream, b"ok"), b"ok");
                            served.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let end = EndOnDrop(&ended);
            for _ in 0..TAKEOVERS {
                let enough = served.load(Ordering::Relaxed) + REQUESTS;
                while served.load(Ordering::Relaxed) < enough
                    && !clients.iter().any(ScopedJoinHandle::is_finished)
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                match process {
                    None => converter.signal(Signal::HUP),
                    Some(successor) => kill_process(successor, Signal::HUP).expect("the program runs"),
                }
                process = Some(successor(&converter.line("takes over the listeners")));
            }
            drop(end);
            for client in clients {
                client.join().expect("no request fails");
            }
        });
        assert!(converter.wait().success());
        kill_process(process.expect("a process id"), Signal::TERM).expect("the program runs");
    }
}

/// The second signal comes while the first new process takes over.
#[test]
fn settings_of_a_second_signal_come_into_force() {
    let converter = Program::start("convert", CONVERTER, 1);
    let (address, target) = (converter.address(), echo("127.0.0.1:0"));
    assert!(is_connected(&message(&request_over(address, target))));
    converter.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(3));
    converter.change_config(&CONVERTER.replace("127.0.0.0/8", "127.1.0.0/16"));
    converter.signal(Signal::HUP);
    let end = Instant::now() + EVENT_TIMEOUT;
    while is_connected(&message(&request_over(address, target))) {
        assert!(Instant::now() < end, "the second settings are not in force");
    }
    let mut takeovers = vec![converter.line("takes over the listeners")];
    takeovers.extend(converter.lines_now().into_iter().filter(|line| line.contains("takes over")));
    for line in takeovers {
        // Ignore errors: a process that was replaced too has ended.
        kill_process(successor(&line), Signal::TERM).unwrap_or_default();
    }
}

#[test]
fn convert_keeps_urgent_bytes() {
    let proxy = Program::start("convert", CONVERTER, 1);
    keep_urgent_bytes(|target| connected_over(connect(proxy.address()), target));
}
