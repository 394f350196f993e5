//! UDP of a host behind a router with two links of 20 and 10 Mbit/s.

use super::links::{Bed, NEEDS};
use super::program::{EVENT_TIMEOUT, Program};
use super::router_links::{Host, router_with};
use anabranch_testkit::namespace::machine_has;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use tokio::time::Instant;

/// Payload of a datagram, as QUIC sends it on most paths (RFC 9000 §14.1), bytes.
const PAYLOAD_BYTES: usize = 1200;
/// Rate of the server, bits per second: nearly the goodput that both links have together.
const OFFERED_BPS: f64 = 27e6;
/// A rate that is reached on a machine with a load of 25 as well, bits per second.
const MIN_RATE_BPS: f64 = 0.5e6;
/// Time for which the server sends, and the part of it that is not measured.
const SEND_DURATION: Duration = Duration::from_secs(9);
const WARM_UP: Duration = Duration::from_secs(3);
const MEASUREMENT_DURATION: Duration = Duration::from_millis(5500);

/// A router with two links, a host behind it, and a far proxy.
struct Network {
    bed: Bed,
    host: Host,
    _programs: [Program; 2],
    server: SocketAddr,
}

impl Network {
    fn new(purpose: &str, line: &str) -> Self {
        let bed = Bed::new(&format!("udp-{purpose}"), "");
        let far = bed.far_proxy();
        let host = Host::new(&bed, &format!("udp-{purpose}"));
        let router = router_with(&bed, line);
        let bind = || UdpSocket::bind((bed.address("server", 0), 443));
        let socket = bed.hosts.namespace("server").run(bind).expect("a free port");
        let server = socket.local_addr().expect("the socket is bound");
        std::thread::spawn(move || serve(&socket));
        Self { bed, host, _programs: [far, router], server }
    }

    /// Requests a download; returns its rate in bits per second, and the share of datagrams that arrived after a later
    /// one.
    fn download(&self) -> (f64, f64) {
        let socket = self.host.namespace().run(|| UdpSocket::bind("192.168.7.2:0")).expect("a free port");
        socket2::SockRef::from(&socket).set_recv_buffer_size(1 << 22).expect("UDP has the option");
        socket.set_read_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
        socket.send_to(b"download", self.server).expect("there is a route");
        let (mut buffer, mut begin, mut bytes) = ([0; 2048], None, 0);
        let (mut latest, mut count, mut late) = (0, 0, 0);
        loop {
            let (len, source) = socket.recv_from(&mut buffer).expect("the server sends");
            assert_eq!((len, source), (PAYLOAD_BYTES, self.server));
            let since = begin.get_or_insert_with(Instant::now).elapsed();
            if since >= WARM_UP + MEASUREMENT_DURATION {
                return (
                    f64::from(bytes) * 8.0 / MEASUREMENT_DURATION.as_secs_f64(),
                    f64::from(late) / f64::from(count),
                );
            }
            let number = u64::from_be_bytes(buffer[..8].try_into().expect("eight bytes"));
            count += 1;
            late += i32::from(number < latest);
            latest = number.max(latest);
            bytes += if since >= WARM_UP { len as u32 } else { 0 };
        }
    }
}

/// Answers each datagram with numbered ones at the offered rate.
fn serve(socket: &UdpSocket) {
    let mut datagram = [0; PAYLOAD_BYTES];
    while let Ok((_, client)) = socket.recv_from(&mut [0; 64]) {
        let (begin, mut number) = (Instant::now(), 0_u64);
        while begin.elapsed() < SEND_DURATION {
            let due = begin.elapsed().as_secs_f64() * OFFERED_BPS / 8.0 / PAYLOAD_BYTES as f64;
            while (number as f64) < due {
                number += 1;
                datagram[..8].copy_from_slice(&number.to_be_bytes());
                // Ignore errors: the client may have closed its socket.
                drop(socket.send_to(&datagram, client));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Asserts that datagrams arrive, nearly all in order.
fn check_download(purpose: &str, line: &str) {
    if !machine_has(&NEEDS) {
        return;
    }
    let (rate, late) = Network::new(purpose, line).download();
    eprintln!("{purpose}: {:.1} Mbit/s, {:.2} % late", rate / 1e6, late * 100.0);
    assert!(rate > MIN_RATE_BPS && late < 0.2, "{purpose}: {rate} bits per second, {late} late");
}

#[test]
fn datagrams_in_a_stream_arrive_over_two_links() {
    check_download("stream", "udp = \"stream\"");
}

#[test]
fn datagrams_over_paths_arrive_in_order() {
    check_download("paths", "udp = \"paths\"");
}

/// A link fails during a call of 50 datagrams per second in each direction.
#[test]
fn call_over_paths_survives_loss_of_a_link() {
    if !machine_has(&NEEDS) {
        return;
    }
    let network = Network::new("call", "udp = \"paths\"");
    let bind = || UdpSocket::bind((network.bed.address("server", 0), 5060));
    let peer = network.bed.hosts.namespace("server").run(bind).expect("a free port");
    let server = peer.local_addr().expect("the socket is bound");
    std::thread::spawn(move || super::udp::send_back(&peer));
    let socket = network.host.namespace().run(|| UdpSocket::bind("192.168.7.2:0")).expect("a free port");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout can be set");
    let (mut answered, mut longest, begin, mut last) = (0, Duration::ZERO, Instant::now(), Instant::now());
    for number in 0_u32..400 {
        if number == 100 {
            network.bed.hosts.ip("client", "link set dev wlan down");
        }
        socket.send_to(&number.to_be_bytes(), server).expect("there is a route");
        let due = begin + (number + 1) * Duration::from_millis(20);
        while Instant::now() < due {
            if socket.recv_from(&mut [0; 64]).is_ok() {
                answered += 1;
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
        }
    }
    eprintln!("{answered} of 400 answered, longest gap {} ms", longest.as_millis());
    assert!(answered > 200 && longest < Duration::from_secs(3), "{answered}, {longest:?}");
}
