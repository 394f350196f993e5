//! Connects to a proxy from each uplink and examines the connection.

use super::facts::Uplink;
use crate::config::{Expected, KeepAlive, Protocol};
use crate::error::Error;
use crate::proxy_check::probe_proxy;
use crate::sockopt::is_multipath;
use crate::stream::{StreamOptions, Transport, write_all};
use crate::upstream::connect::connect_to;
use crate::watch::kernel::established;
use core::net::{IpAddr, SocketAddr};
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// Timeout for the connection, and then for its further subflows.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// Interval at which subflows are counted.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The proxy may still reset a new subflow; once the subflow has lasted for two round trips and this time, it counts.
const SETTLING_TIME: Duration = Duration::from_millis(200);

/// Result of connecting from each uplink.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Address of the proxy.
    pub to: SocketAddr,
    /// Result for each uplink's address.
    pub from: Vec<(IpAddr, Outcome)>,
}

/// Result of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The connection failed for this reason.
    None(String),
    /// The connection uses TCP without Multipath TCP.
    Plain,
    /// Multipath TCP with this number of subflows.
    Multipath(u32),
    /// The connection was accepted, but another program than an Anabranch proxy answered.
    Foreign,
    /// The connection was accepted, but there was no answer.
    Silent,
}

/// Connects from one uplink after another.
///
/// # Errors
/// If the runtime cannot be started.
pub fn attempt(to: SocketAddr, expected: Option<Expected>, uplinks: &[Uplink]) -> Result<Attempt, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Refused(format!("cannot start: {error}")))?;
    let from = runtime.block_on(async {
        let mut from = Vec::new();
        for uplink in uplinks {
            let outcome = from_uplink((to, uplink.address), expected, uplinks.len() as u32).await;
            from.push((uplink.address, outcome));
        }
        from
    });
    Ok(Attempt { to, from })
}

/// First bytes of a SOCKS 5 greeting and of a Convert message. A proxy waits for the rest of the message, so the
/// connection stays open; the kernel could open no further subflow after a close by the proxy.
const FIRST_BYTES: [u8; 2] = [5, 1];

/// Connects from one uplink, checks the answer, and counts subflows.
async fn from_uplink(pair: (SocketAddr, IpAddr), expected: Option<Expected>, uplinks: u32) -> Outcome {
    let (outcome, answer) = tokio::join!(count_subflows(pair, uplinks), first_answer(pair, expected));
    match (&outcome, answer) {
        (Outcome::None(_), _) | (_, FirstAnswer::AnabranchProxy) => outcome,
        // Without settings, the peer may be a reverse proxy, whose protocol is unknown here.
        (Outcome::Multipath(_), _) if expected.is_none() => outcome,
        (_, FirstAnswer::Foreign) => Outcome::Foreign,
        (_, FirstAnswer::Silent) => Outcome::Silent,
    }
}

/// First answer of the peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FirstAnswer {
    Silent,
    Foreign,
    AnabranchProxy,
}

/// Probes the peer with the expected protocol, or with each protocol of an Anabranch proxy if none is expected.
async fn first_answer(pair: (SocketAddr, IpAddr), expected: Option<Expected>) -> FirstAnswer {
    let expected_with = |protocol, has_user| Expected { protocol, has_user };
    let all = [
        expected_with(Protocol::Socks, true),
        expected_with(Protocol::Socks, false),
        expected_with(Protocol::Convert, true),
    ];
    let mut best = FirstAnswer::Silent;
    for expected in expected.map_or(all.to_vec(), |expected| vec![expected]) {
        let probing = async {
            let stream = connect(pair.0, pair.1).await?;
            probe_proxy(&stream, expected).await
        };
        best = best.max(match timeout(CONNECT_TIMEOUT, probing).await {
            Ok(Ok(true)) => return FirstAnswer::AnabranchProxy,
            // A program that does not support the protocol may close the connection.
            Ok(Ok(false) | Err(_)) => FirstAnswer::Foreign,
            Err(_) => FirstAnswer::Silent,
        });
    }
    best
}

/// Counts the subflows of two test connections, which send different first bytes: a program that closes the connection
/// after one of these bytes may wait for more data after the other.
async fn count_subflows((to, from): (SocketAddr, IpAddr), uplinks: u32) -> Outcome {
    let mut best = Outcome::Plain;
    for first_byte in FIRST_BYTES {
        let tried = timeout(CONNECT_TIMEOUT, connect_and_send(to, from, first_byte)).await;
        let stream = match tried.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            Ok(stream) => stream,
            Err(error) => return Outcome::None(error.to_string()),
        };
        let outcome = observe(&stream, uplinks).await;
        if subflow_count(&outcome) >= subflow_count(&best) {
            best = outcome;
        }
        if subflow_count(&best) >= uplinks || !has_ended(&stream) {
            break;
        }
    }
    best
}

const fn subflow_count(outcome: &Outcome) -> u32 {
    if let Outcome::Multipath(subflows) = outcome { *subflows } else { 0 }
}

/// Opens a connection and sends a byte, because the kernel opens further subflows only after data.
async fn connect_and_send(to: SocketAddr, from: IpAddr, first_byte: u8) -> io::Result<TcpStream> {
    let stream = connect(to, from).await?;
    write_all(&stream, &[first_byte]).await?;
    Ok(stream)
}

async fn connect(to: SocketAddr, from: IpAddr) -> io::Result<TcpStream> {
    let options = StreamOptions { transport: Transport::Mptcp, keep_alive: KeepAlive::default().duration() };
    connect_to(to, Some(from), options).await
}

/// True if the peer has closed the connection.
fn has_ended(stream: &TcpStream) -> bool {
    let mut some = [0; 1024];
    loop {
        match stream.try_read(&mut some) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// Waits until there is a subflow for each uplink, or until the timeout. The peer may reset a subflow after the
/// handshake, which becomes visible one round trip later, so a subflow is counted only after that time.
async fn observe(stream: &TcpStream, uplinks: u32) -> Outcome {
    let end = Instant::now() + CONNECT_TIMEOUT;
    let (mut most, mut seen, mut since) = (1, 1, Instant::now());
    while most < uplinks {
        if !is_multipath(stream) {
            return Outcome::Plain;
        }
        let (there, round_trip) = established(stream);
        if there != seen {
            (seen, since) = (there, Instant::now());
        }
        let is_certain = since.elapsed() >= 2 * round_trip + SETTLING_TIME;
        if is_certain {
            most = most.max(seen);
        }
        // A subflow that is opened shortly before the timeout is observed as long as the others.
        let late = Instant::now() >= end;
        if late && (is_certain || Instant::now() >= end + CONNECT_TIMEOUT) {
            break;
        }
        sleep(POLL_INTERVAL).await;
    }
    if is_multipath(stream) { Outcome::Multipath(most) } else { Outcome::Plain }
}
