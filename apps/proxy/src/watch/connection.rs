//! Counters of a relayed connection, for the status page.

use super::kernel::{Subflow, subflows};
use super::uplinks::{self, Side};
use crate::sockopt::is_multipath;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::net::TcpStream;

/// True if the status page is enabled. Otherwise the kernel's counters are not read.
pub static WATCHED: AtomicBool = AtomicBool::new(false);

/// Byte counters of a connection, and its streams while they are open.
#[derive(Debug, Default)]
pub struct Carried {
    /// Bytes from the client to the server.
    pub up: AtomicU64,
    /// Bytes from the server to the client.
    pub down: AtomicU64,
    /// Longest time that bytes waited until their receiver could take them, µs.
    longest_wait_us: AtomicU64,
    /// True for an intercepted connection. The local address of its client's end is the server's, not an address of
    /// this machine.
    intercepted: bool,
    ends: OnceLock<[End; 2]>,
}

#[derive(Debug)]
struct End {
    side: Side,
    /// True if the local address belongs to this machine.
    is_local: bool,
    stream: Weak<TcpStream>,
    /// True if the connection started as Multipath TCP.
    was_multipath: bool,
    seen: Mutex<Vec<Subflow>>,
}

/// Transport of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Multipath TCP.
    Multipath,
    /// TCP from the start.
    Tcp,
    /// TCP after a fallback from Multipath TCP (RFC 8684 §3.7).
    Fallback,
}

/// Sample of one end of a connection.
#[derive(Clone, Debug, serde::Serialize)]
pub struct EndSample {
    /// Transport of this end.
    pub kind: Kind,
    /// Subflows of this end; a TCP connection has one.
    pub subflows: Vec<Subflow>,
}

impl Carried {
    /// Bytes from the client and from the server.
    pub fn bytes(&self) -> [u64; 2] {
        [&self.up, &self.down].map(|bytes| bytes.load(Ordering::Relaxed))
    }

    /// Creates the counters of an intercepted connection. The local address of the client's end is a server's address,
    /// so traffic at this end is counted for no uplink.
    pub fn intercepted() -> Self {
        Self { intercepted: true, ..Self::default() }
    }

    /// Stores the two streams. Called when the relay starts.
    pub fn begin(&self, client: &Arc<TcpStream>, server: &Arc<TcpStream>) {
        let end = |side, stream: &Arc<TcpStream>| End {
            side,
            is_local: side == Side::Server || !self.intercepted,
            stream: Arc::downgrade(stream),
            was_multipath: is_multipath(&**stream),
            seen: Mutex::default(),
        };
        if WATCHED.load(Ordering::Relaxed) {
            // Ignore errors: the streams are already set only if the relay starts twice, which does not happen.
            drop(self.ends.set([end(Side::Client, client), end(Side::Server, server)]));
        }
    }

    /// Records a time for which bytes have waited for their receiver.
    pub fn record_wait(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.longest_wait_us.fetch_max(time, Ordering::Relaxed);
    }

    /// Returns the longest time that bytes waited for their receiver, µs.
    pub fn longest_wait_us(&self) -> u64 {
        self.longest_wait_us.load(Ordering::Relaxed)
    }

    /// True if the client uses Multipath TCP; `None` before the relay starts.
    pub fn client_is_multipath(&self) -> Option<bool> {
        self.ends.get().map(|[client, _]| client.was_multipath)
    }

    /// Reads the kernel's counters of both ends, the client's end first, and adds their increase to the uplinks. The
    /// relay must call this once more before it closes the streams, or the last bytes are missing.
    pub fn sample(&self) -> Vec<EndSample> {
        let ends = self.ends.get().into_iter().flatten();
        ends.filter_map(|end| Some(end.sample(&*end.stream.upgrade()?))).collect()
    }
}

impl End {
    fn sample(&self, stream: &TcpStream) -> EndSample {
        let now = subflows(stream, self.side == Side::Server);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_local {
            uplinks::count(self.side, &seen, &now);
        }
        // If the result is empty, the kernel returned nothing; it does not mean that the subflows were closed.
        if !now.is_empty() {
            seen.clone_from(&now);
        }
        let kind = match (self.was_multipath, is_multipath(stream)) {
            (_, true) => Kind::Multipath,
            (true, false) => Kind::Fallback,
            (false, false) => Kind::Tcp,
        };
        EndSample { kind, subflows: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;
    use tokio::net::TcpListener;

    /// Opens a connection to this local address; returns its accepted and its connecting end.
    async fn pair(here: &str) -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind((here, 0)).await.expect("loopback has a free port");
        let other = TcpStream::connect(listener.local_addr().expect("the socket is bound"))
            .await
            .expect("the server listens");
        (Arc::new(listener.accept().await.expect("a client").0), other)
    }

    #[tokio::test]
    async fn intercepted_addresses_are_not_uplinks() {
        WATCHED.store(true, Ordering::Relaxed);
        for (carried, client_at, server_at, counted) in [
            (Carried::intercepted(), "127.77.0.1", "127.77.0.2", false),
            (Carried::default(), "127.77.0.3", "127.77.0.4", true),
        ] {
            let (client, _other) = pair(client_at).await;
            let (server, _another) = pair(server_at).await;
            carried.begin(&client, &server);
            let ends = carried.sample();
            assert_eq!(ends.iter().map(|end| end.subflows.len()).collect::<Vec<_>>(), [1, 1]);
            let is_counted = |ip: &str, side| {
                let ip: IpAddr = ip.parse().expect("an address");
                uplinks::all().iter().any(|(key, _)| *key == (ip, side))
            };
            assert_eq!(is_counted(client_at, Side::Client), counted);
            assert!(is_counted(server_at, Side::Server));
        }
    }
}
