//! Transfers of random bytes: each end receives either all bytes that the other has sent, or an error.

use super::convert::{CONVERTER, connected_over};
use super::program::{EVENT_TIMEOUT, Program, connect, server};
use super::socks::{OPEN_CONFIG, through_over};
use anabranch_testkit::namespace::{Need, machine_has, within};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Maximum time until an end detects the other's reset. Linux sends `MP_FASTCLOSE` once. If the receiver drops that
/// packet for lack of memory, it keeps the connection without any subflow for `net.mptcp.close_timeout`, which is a
/// minute.
const RESET_TIMEOUT: Duration = Duration::from_secs(90);

/// Behaviour of one end of a transfer.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Seed of the bytes that this end writes.
    seed: u64,
    /// Number of bytes that this end writes.
    len: usize,
    /// Number of bytes after which this end resets the connection; `None` if it does not.
    reset_at: Option<usize>,
    /// True if this end starts to write only after it has read the whole stream of the other end, which is then
    /// half-closed.
    afterwards: bool,
}

/// Chooses the behaviour of client and server at random.
fn plan(seed: u64) -> [Part; 2] {
    let mut rng = SplitMix64::seed_from_u64(seed);
    let mut below = |bound: u64| rng.next_u64() % bound;
    let who_resets = below(4);
    let who_waits = below(4);
    [0, 1].map(|end| {
        let len = 1 << below(22);
        let len = (len + below(len)) as usize;
        Part {
            seed: 2 * seed + end,
            len,
            reset_at: (who_resets == end).then(|| below(len as u64) as usize),
            afterwards: who_waits == end && who_resets != end,
        }
    })
}

/// Result of one end of a transfer.
#[derive(Debug)]
struct Seen {
    /// Bytes read until the end of the stream, or the error of reading or writing.
    read: Result<Vec<u8>, io::Error>,
}

fn content(part: Part) -> Vec<u8> {
    let mut bytes = vec![0; part.len];
    SplitMix64::seed_from_u64(part.seed).fill_bytes(&mut bytes);
    bytes
}

fn act(stream: &TcpStream, part: Part) -> Seen {
    let write = || {
        let bytes = content(part);
        (&*stream).write_all(&bytes[..part.reset_at.unwrap_or(part.len)])?;
        if part.reset_at.is_none() { stream.shutdown(Shutdown::Write) } else { Ok(()) }
    };
    let read = || {
        let mut bytes = Vec::new();
        (&*stream).read_to_end(&mut bytes).map(|_| bytes)
    };
    if part.reset_at.is_some() {
        drop(write());
        SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("TCP has the option");
        return Seen { read: Err(ErrorKind::Interrupted.into()) };
    }
    if part.afterwards {
        let read = read().and_then(|bytes| write().map(|()| bytes));
        return Seen { read };
    }
    // The kernel reports a reset only once. If the writer gets the error, the reader sees an ordinary end of the
    // stream.
    std::thread::scope(|scope| {
        let wrote = scope.spawn(write);
        let read = read();
        Seen { read: wrote.join().expect("the thread does not panic").and(read) }
    })
}

fn check(seed: u64, client: &Seen, served: &Receiver<(u64, Seen)>) {
    let parts = plan(seed);
    let (number, server) = served.recv_timeout(RESET_TIMEOUT + EVENT_TIMEOUT).expect("the server ends");
    assert_eq!(number, seed);
    let reset = parts.iter().any(|part| part.reset_at.is_some());
    for (end, seen, other) in [("client", client, parts[1]), ("server", &server, parts[0])] {
        match &seen.read {
            Ok(bytes) => {
                assert!(*bytes == content(other), "{end} of {seed}: {} bytes of {other:?}", bytes.len());
                assert!(other.reset_at.is_none(), "{end} of {seed} saw no reset: {other:?}");
            }
            Err(error) => {
                let timed_out = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(reset && !timed_out, "{end} of {seed}: {error}; {parts:?}");
            }
        }
    }
}

/// Connects with Multipath TCP.
fn connect_multipath(address: SocketAddr) -> TcpStream {
    let socket =
        Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).expect("the kernel has Multipath TCP");
    socket.connect(&address.into()).expect("the server listens");
    let stream = socket.into();
    wait_for_resets(&stream);
    stream
}

fn wait_for_resets(stream: &TcpStream) {
    stream.set_read_timeout(Some(RESET_TIMEOUT)).expect("a timeout can be set");
    stream.set_write_timeout(Some(RESET_TIMEOUT)).expect("a timeout can be set");
}

#[test]
fn transfer_by_tcp_is_whole_or_fails() {
    let proxy = Program::start("socks", OPEN_CONFIG, 1);
    transfer(|target| through_over(connect(proxy.address()), target));
}

/// The proxy converts a TCP reset to `MP_FASTCLOSE`, and `MP_FASTCLOSE` to a TCP reset.
#[test]
fn transfer_by_mptcp_is_whole_or_fails() {
    if machine_has(&[Need::Mptcp]) {
        let proxy = Program::start("socks", OPEN_CONFIG, 1);
        transfer(|target| through_over(connect_multipath(proxy.address()), target));
    }
}

#[test]
fn transfer_by_converter_is_whole_or_fails() {
    if machine_has(&[Need::Mptcp]) {
        let converter = Program::start("convert", CONVERTER, 1);
        transfer(|target| connected_over(connect_multipath(converter.address()), target));
    }
}

fn transfer(through: impl Fn(SocketAddr) -> TcpStream) {
    /// Number of transfers.
    const TRANSFERS: u64 = 500;
    let (sender, served) = channel();
    let target = server("127.0.0.1:0", move |mut stream| {
        wait_for_resets(&stream);
        let mut seed = [0; 8];
        stream.read_exact(&mut seed).expect("the client sends the seed");
        stream.write_all(&[0]).expect("the client waits");
        let seed = u64::from_be_bytes(seed);
        let seen = act(&stream, plan(seed)[1]);
        drop(stream);
        sender.send((seed, seen)).expect("the test still receives");
    });
    for seed in 0..TRANSFERS {
        let stream = through(target);
        // The client's reset may overtake its data, so the server must first know the number of this transfer.
        (&stream).write_all(&seed.to_be_bytes()).expect("the peer reads");
        let seen = match (&stream).read_exact(&mut [0]) {
            Ok(()) => act(&stream, plan(seed)[0]),
            Err(error) => Seen { read: Err(error) },
        };
        drop(stream);
        check(seed, &seen, &served);
    }
}

/// The client's reset contains no `MP_FASTCLOSE`, and arrives after the end of the server's stream: the proxy's read
/// fails with `ENOTCONN`.
#[test]
fn reset_without_fastclose_fails_the_stream() {
    if !machine_has(&[
        Need::Namespaces,
        Need::Mptcp,
        Need::Other(can_strip_options, "nft cannot strip TCP options"),
    ]) {
        return;
    }
    within("fastclose", || {
        assert!(strip_options(&[]), "nft refuses the rule");
        let proxy = Program::start("socks", OPEN_CONFIG, 1);
        let (sender, served) = channel();
        let target = server("127.0.0.1:0", move |stream| {
            stream.shutdown(Shutdown::Write).expect("the stream is connected");
            let mut bytes = Vec::new();
            let read = (&stream).read_to_end(&mut bytes).map(|_| bytes);
            sender.send(read).expect("the test still receives");
        });
        let stream = through_over(connect_multipath(proxy.address()), target);
        (&stream).write_all(b"a part").expect("the proxy reads");
        assert_eq!((&stream).read(&mut [0]).expect("the server's stream ends"), 0);
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("TCP has the option");
        drop(stream);
        let seen = served.recv_timeout(EVENT_TIMEOUT).expect("the server ends");
        assert_eq!(seen.expect_err("the connection is reset").kind(), ErrorKind::ConnectionReset);
    });
}

fn can_strip_options() -> bool {
    strip_options(&["--check"])
}

/// Makes this namespace send resets without Multipath TCP options; returns true if `nft` accepts the rule.
fn strip_options(options: &[&str]) -> bool {
    let rule = "table inet fastclose {
        chain out {
            type filter hook output priority 0
            tcp flags & rst == rst reset tcp option mptcp
        }
    }";
    let done = Command::new("nft").args(options).arg(rule).output();
    done.is_ok_and(|output| output.status.success())
}
