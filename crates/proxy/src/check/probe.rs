//! Connecting to a proxy from each uplink, and seeing what becomes of it.

use super::facts::Uplink;
use crate::config::{Expected, KeepAlive, Protocol};
use crate::connect::connect_to;
use crate::error::Error;
use crate::proxy_check::is_answered;
use crate::sockopt::is_multipath;
use crate::stream::{StreamOptions, Transport, write_all};
use crate::watch::kernel::established;
use core::net::{IpAddr, SocketAddr};
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// How long a connection may take, and then its subflows.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// How often it is looked whether they are there.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// A subflow that has been there for two round trips and this is not refused any more.
const SETTLING_TIME: Duration = Duration::from_millis(200);

/// Result of connecting from each uplink.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// With whom.
    pub to: SocketAddr,
    /// From each uplink.
    pub from: Vec<(IpAddr, Outcome)>,
}

/// Result of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was none, because of this.
    None(String),
    /// It is TCP alone.
    Plain,
    /// Multipath TCP with the given number of subflows.
    Multipath(u32),
    /// It was accepted, and another program than a proxy of ours answered.
    Foreign,
    /// It was accepted, and nothing was answered.
    Silent,
}

/// Connects from each uplink in turn.
///
/// # Errors
/// If the machine has no threads for it.
pub fn attempt(to: SocketAddr, expected: Option<Expected>, uplinks: &[Uplink]) -> Result<Attempt, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Refused(format!("cannot begin: {error}")))?;
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

/// First bytes of a greeting of SOCKS 5 and of a message of Convert. The peer has to acknowledge one and then waits for the
/// rest. A connection that the peer closes would take no further subflow.
const BEGINNINGS: [u8; 2] = [5, 1];

/// Connects from one uplink, asks for a valid answer, and counts subflows.
async fn from_uplink(pair: (SocketAddr, IpAddr), expected: Option<Expected>, uplinks: u32) -> Outcome {
    let (outcome, answer) = tokio::join!(count_subflows(pair, uplinks), first_answer(pair, expected));
    match (&outcome, answer) {
        (Outcome::None(_), _) | (_, FirstAnswer::Ours) => outcome,
        // Without the settings it may be a reverse proxy, whose protocol is not known here.
        (Outcome::Multipath(_), _) if expected.is_none() => outcome,
        (_, FirstAnswer::Foreign) => Outcome::Foreign,
        (_, FirstAnswer::Silent) => Outcome::Silent,
    }
}

/// The first answer to the beginning of a conversation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FirstAnswer {
    Silent,
    Foreign,
    Ours,
}

/// Asks for the answer that is expected, or for each that a proxy of ours may give.
async fn first_answer(pair: (SocketAddr, IpAddr), expected: Option<Expected>) -> FirstAnswer {
    let of = |protocol, has_user| Expected { protocol, has_user };
    let all = [of(Protocol::Socks, true), of(Protocol::Socks, false), of(Protocol::Convert, true)];
    let mut best = FirstAnswer::Silent;
    for expected in expected.map_or(all.to_vec(), |expected| vec![expected]) {
        let asking = async {
            let stream = connect(pair.0, pair.1).await?;
            is_answered(&stream, expected).await
        };
        best = best.max(match timeout(CONNECT_TIMEOUT, asking).await {
            Ok(Ok(true)) => return FirstAnswer::Ours,
            // A program that does not know the protocol may close.
            Ok(Ok(false) | Err(_)) => FirstAnswer::Foreign,
            Err(_) => FirstAnswer::Silent,
        });
    }
    best
}

/// Counts subflows. A program that ends the connection at one beginning may wait at the other.
async fn count_subflows((to, from): (SocketAddr, IpAddr), uplinks: u32) -> Outcome {
    let mut best = Outcome::Plain;
    for beginning in BEGINNINGS {
        let tried = timeout(CONNECT_TIMEOUT, begin(to, from, beginning)).await;
        let stream = match tried.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            Ok(stream) => stream,
            Err(error) => return Outcome::None(error.to_string()),
        };
        let outcome = observe(&stream, uplinks).await;
        if most(&outcome) >= most(&best) {
            best = outcome;
        }
        if most(&best) >= uplinks || !has_ended(&stream) {
            break;
        }
    }
    best
}

const fn most(outcome: &Outcome) -> u32 {
    if let Outcome::Multipath(subflows) = outcome { *subflows } else { 0 }
}

/// A connection that has carried data, before which no subflow is opened.
async fn begin(to: SocketAddr, from: IpAddr, beginning: u8) -> io::Result<TcpStream> {
    let stream = connect(to, from).await?;
    write_all(&stream, &[beginning]).await?;
    Ok(stream)
}

async fn connect(to: SocketAddr, from: IpAddr) -> io::Result<TcpStream> {
    let options = StreamOptions { transport: Transport::Mptcp, keep_alive: KeepAlive::default().duration() };
    connect_to(to, Some(from), options).await
}

/// Whether the other end has closed.
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

/// Waits until there is a subflow for each uplink, or until the time is over. The peer may refuse a subflow after the last part
/// of its handshake, which shows a round trip later, so a subflow counts only after that.
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
        // One that has come late is looked at as long as others are.
        let late = Instant::now() >= end;
        if late && (is_certain || Instant::now() >= end + CONNECT_TIMEOUT) {
            break;
        }
        sleep(LOOK_INTERVAL).await;
    }
    if is_multipath(stream) { Outcome::Multipath(most) } else { Outcome::Plain }
}
