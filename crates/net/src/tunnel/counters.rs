//! Counters of tunnels.

use core::sync::atomic::{AtomicU64, Ordering};
use serde::Serialize;

/// A counter that one thread increments and others read.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of a tunnel.
#[derive(Debug, Default)]
pub(super) struct OfTunnel {
    pub sent: Counter,
    pub not_sent: Counter,
    pub received: Counter,
    pub too_long: Counter,
}

/// Counters of a socket.
#[derive(Debug, Default)]
pub(super) struct OfSocket {
    pub wrong_key: Counter,
    pub invalid: Counter,
}

/// Packets of a tunnel. Tunnels with the same addresses share the last two counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TunnelCounters {
    /// Link of the tunnel.
    pub link: String,
    /// Packets of the link that were sent.
    pub sent: u64,
    /// Packets of the link that the system did not send.
    pub not_sent: u64,
    /// Packets of the link that have arrived.
    pub received: u64,
    /// Packets that exceeded the link's MTU and were dropped: usually several that the network card has merged.
    pub too_long: u64,
    /// Packets of the other machine with another key, which were dropped.
    pub wrong_key: u64,
    /// Packets of the other machine that are invalid, or from an earlier testbed, and were dropped.
    pub invalid: u64,
}

impl TunnelCounters {
    pub(super) fn of(link: &str, tunnel: &OfTunnel, socket: &OfSocket) -> Self {
        Self {
            link: link.to_owned(),
            sent: tunnel.sent.read(),
            not_sent: tunnel.not_sent.read(),
            received: tunnel.received.read(),
            too_long: tunnel.too_long.read(),
            wrong_key: socket.wrong_key.read(),
            invalid: socket.invalid.read(),
        }
    }
}
