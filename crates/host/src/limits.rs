//! How much a host keeps and says, whatever it is sent.

use core::ops::RangeInclusive;

/// Bounds of a host.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections of all kinds.
    pub connections: usize,
    /// Ended TCP connections that are remembered (TIME-WAIT); beyond, the oldest is forgotten.
    pub time_wait: usize,
    /// Answers a second to packets that belong to nobody: RST, ABORT and ICMP errors together (RFC 1812 §4.3.2.8,
    /// RFC 4443 §2.4 f).
    pub answers_per_second: u32,
    /// Pairs of addresses that are remembered because connections came about on them (Becke2014 §5.1.2.1); beyond, the one that
    /// was used least lately is forgotten.
    pub pairs: usize,
    /// Ports that are given out (RFC 6335 §6: the dynamic ports).
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
    /// Connections whose handshake is complete and that the application has not accepted; with that many, new ones are
    /// not answered.
    pub complete: usize,
    /// Connections whose handshake is under way; with that many, TCP answers with SYN cookies. SCTP keeps nothing of a
    /// handshake.
    pub incomplete: usize,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { complete: 128, incomplete: 256 }
    }
}
