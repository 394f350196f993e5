//! Deadlines of a control block, and the last signs of life of its peer. `timers.rs` acts on them.

use anabranch_base::time::Time;

/// Deadlines; `None` where the block waits for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    pub retransmit: Option<Time>,
    pub persist: Option<Time>,
    /// Time of the next keep-alive.
    pub keepalive: Option<Time>,
    /// User timeout: outstanding data has to be acknowledged, or the window opened, until this time.
    pub user: Option<Time>,
    /// Time at which the discovered path MTU is discarded.
    pub raise_mtu: Option<Time>,
    pub time_wait: Option<Time>,
    /// Earliest time of the next challenge ACK (RFC 5961 §7).
    pub challenge_from: Time,
}

/// Last sign of life of the peer, and the probes sent since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Life {
    /// Arrival of the last acceptable segment.
    pub heard: Time,
    /// Keep-alives, and probes of a closed window, sent since then.
    pub keepalives: u32,
    pub probes: u32,
}
