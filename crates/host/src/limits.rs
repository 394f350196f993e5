//! Bounds on a host's memory and answers for any input.

use core::ops::RangeInclusive;

/// Bounds of a host.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of connections of all kinds.
    pub connections: usize,
    /// Maximum number of ended TCP connections in TIME-WAIT; a further one replaces the oldest.
    pub time_wait: usize,
    /// Maximum number of answers a second to packets without a connection: RST, ABORT and ICMP errors together (RFC
    /// 1812 §4.3.2.8, RFC 4443 §2.4 f).
    pub answers_per_second: u32,
    /// Maximum number of address pairs kept because a connection was established on them (Becke2014 §5.1.2.1); a
    /// further one replaces the least recently used.
    pub pairs: usize,
    /// Ephemeral ports (RFC 6335 §6: the dynamic ports).
    pub ephemeral_ports: RangeInclusive<u16>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            time_wait: 16_384,
            answers_per_second: 1_000,
            pairs: 256,
            ephemeral_ports: 49_152..=65_535,
        }
    }
}

/// Bounds of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Maximum number of established connections that the application has not accepted; at this number, further SYNs
    /// get no answer.
    pub complete: usize,
    /// Maximum number of connections in a handshake; at this number, TCP answers SYNs with cookies. SCTP keeps no
    /// state of a handshake.
    pub incomplete: usize,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { complete: 128, incomplete: 256 }
    }
}
