//! A connection that is relayed, as it is watched.

use super::kernel::{Subflow, subflows};
use super::uplinks::{self, Side};
use crate::sockopt::is_multipath;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::net::TcpStream;

/// Whether the status page is on; otherwise the kernel is not asked.
pub static WATCHED: AtomicBool = AtomicBool::new(false);

/// Bytes of a connection, and its streams while they are open.
#[derive(Debug, Default)]
pub struct Carried {
    /// Bytes from the client to the server.
    pub up: AtomicU64,
    /// Bytes from the server to the client.
    pub down: AtomicU64,
    /// Longest time that bytes waited for their receiver, µs.
    longest_wait_us: AtomicU64,
    /// It was intercepted: its local address is not one of this machine.
    intercepted: bool,
    ends: OnceLock<[End; 2]>,
}

#[derive(Debug)]
struct End {
    side: Side,
    /// Its address is this machine's.
    is_here: bool,
    stream: Weak<TcpStream>,
    /// It began as Multipath TCP.
    was_multipath: bool,
    seen: Mutex<Vec<Subflow>>,
}

/// Transport of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Multipath TCP.
    Multipath,
    /// TCP from the beginning.
    Tcp,
    /// TCP after Multipath TCP (RFC 8684 §3.7).
    Fallback,
}

/// One end of a connection at one time.
#[derive(Clone, Debug, serde::Serialize)]
pub struct EndSample {
    /// Its transport.
    pub kind: Kind,
    /// Its subflows; with TCP there is one.
    pub subflows: Vec<Subflow>,
}

impl Carried {
    /// Of a client that wanted to go elsewhere, and was handed over on the way. The addresses that it came to are as many as there are
    /// servers, and count for no uplink.
    pub fn intercepted() -> Self {
        Self { intercepted: true, ..Self::default() }
    }

    /// Its streams are there, that of the client first.
    pub fn begin(&self, client: &Arc<TcpStream>, server: &Arc<TcpStream>) {
        let end = |side, stream: &Arc<TcpStream>| End {
            side,
            is_here: side == Side::Server || !self.intercepted,
            stream: Arc::downgrade(stream),
            was_multipath: is_multipath(&**stream),
            seen: Mutex::default(),
        };
        if WATCHED.load(Ordering::Relaxed) {
            // It begins once.
            drop(self.ends.set([end(Side::Client, client), end(Side::Server, server)]));
        }
    }

    /// Notes a time that bytes have waited.
    pub fn waited(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.longest_wait_us.fetch_max(time, Ordering::Relaxed);
    }

    /// The longest time that bytes waited, µs.
    pub fn longest_wait_us(&self) -> u64 {
        self.longest_wait_us.load(Ordering::Relaxed)
    }

    /// Whether its client came by Multipath TCP; `None` if it has no streams yet.
    pub fn client_is_multipath(&self) -> Option<bool> {
        self.ends.get().map(|[client, _]| client.was_multipath)
    }

    /// Asks the kernel how both ends are, that of the client first, and counts what is new for the uplinks. To be called a last
    /// time before the streams are closed.
    pub fn sample(&self) -> Vec<EndSample> {
        let ends = self.ends.get().into_iter().flatten();
        ends.filter_map(|end| Some(end.sample(&*end.stream.upgrade()?))).collect()
    }
}

impl End {
    fn sample(&self, stream: &TcpStream) -> EndSample {
        let now = subflows(stream, self.side == Side::Server);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_here {
            uplinks::count(self.side, &seen, &now);
        }
        // An end that the kernel says nothing of just now is not one whose subflows have gone.
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

    /// A stream whose address here is this one, and its other end.
    async fn pair(here: &str) -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind((here, 0)).await.expect("loopback has a free port");
        let other =
            TcpStream::connect(listener.local_addr().expect("it is bound")).await.expect("it listens");
        (Arc::new(listener.accept().await.expect("a client").0), other)
    }

    #[tokio::test]
    async fn servers_of_intercepted_hosts_are_no_uplinks() {
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
