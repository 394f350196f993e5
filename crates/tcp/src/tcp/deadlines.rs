//! Deadlines of a block, and the time when it last heard from its peer. `timers.rs` acts on them.

use anabranch_base::time::Time;

/// Deadlines, each absent when there is nothing to wait for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    pub retransmit: Option<Time>,
    pub persist: Option<Time>,
    /// The peer may have fallen silent.
    pub keepalive: Option<Time>,
    /// Outstanding data should have been acknowledged, or a window opened.
    pub user: Option<Time>,
    /// When the path MTU is forgotten.
    pub raise_mtu: Option<Time>,
    pub time_wait: Option<Time>,
    /// Next moment at which a challenge ACK may be sent (RFC 5961 §7).
    pub challenge_from: Time,
}

/// Times at which the peer was heard from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Life {
    /// When the last acceptable segment arrived.
    pub heard: Time,
    /// Keep-alives, and probes of a closed window, sent since.
    pub keepalives: u32,
    pub probes: u32,
}
