//! Connecting to a proxy from each uplink, and seeing what becomes of it.

use super::facts::Uplink;
use crate::connect::attempt_in_order;
use crate::error::Error;
use crate::sockopt::{further_subflows, is_multipath};
use crate::stream::{Transport, write_all};
use core::net::{IpAddr, SocketAddr};
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// How long a connection may take, and then its subflows.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often it is looked whether they are there.
const GLANCE: Duration = Duration::from_millis(20);

/// What came of it.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// With whom.
    pub to: SocketAddr,
    /// From each uplink.
    pub from: Vec<(IpAddr, Outcome)>,
}

/// What came of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was none, because of this.
    None(String),
    /// It is TCP alone.
    Plain,
    /// It is Multipath TCP with so many subflows.
    Multipath(u32),
}

/// Connects from each uplink in turn.
///
/// # Errors
/// If the machine has no threads for it.
pub fn attempt(to: SocketAddr, uplinks: &[Uplink]) -> Result<Attempt, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Refused(format!("cannot begin: {error}")))?;
    let from = runtime.block_on(async {
        let mut from = Vec::new();
        for uplink in uplinks {
            let tried = timeout(PATIENCE, connect(to, uplink.address)).await;
            let outcome = match tried.unwrap_or_else(|elapsed| Err(elapsed.into())) {
                Ok(stream) => observe(&stream, uplinks.len() as u32).await,
                Err(error) => Outcome::None(error.to_string()),
            };
            from.push((uplink.address, outcome));
        }
        from
    });
    Ok(Attempt { to, from })
}

/// A connection that has carried data, before which no subflow is opened.
async fn connect(to: SocketAddr, from: IpAddr) -> io::Result<TcpStream> {
    let stream = attempt_in_order(vec![(to, Some(from))], Transport::Mptcp).await?;
    // A greeting of SOCKS 5; whoever is there has to acknowledge it, whatever it is to him.
    write_all(&stream, &[5, 1, 0]).await?;
    Ok(stream)
}

/// Waits until there is a subflow for each uplink, or for as long as that may take.
async fn observe(stream: &TcpStream, uplinks: u32) -> Outcome {
    let end = Instant::now() + PATIENCE;
    let mut most = 1;
    while most < uplinks && Instant::now() < end {
        if !is_multipath(stream) {
            return Outcome::Plain;
        }
        most = most.max(1 + further_subflows(stream).unwrap_or_default());
        sleep(GLANCE).await;
    }
    if is_multipath(stream) { Outcome::Multipath(most) } else { Outcome::Plain }
}
