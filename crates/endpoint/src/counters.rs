//! Counts of events and bytes of a path.

use crate::scheduling::DecisionReason;

/// Event counts of one path since the start. Payload bytes exclude all headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets sent, of any kind.
    pub packets_sent: u64,
    /// Packets sent that carry data.
    pub data_packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes received on this path, duplicates included.
    pub bytes_received: u64,
    /// Payload bytes acknowledged on this path.
    pub bytes_acked: u64,
    /// Data packets retransmitted in fast recovery (or its successors PRR and RACK).
    pub fast_retransmissions: u64,
    /// Data packets retransmitted after a timeout.
    pub timeout_retransmissions: u64,
    /// Data packets sent whose data another path had carried before (reinjection, opportunistic retransmission,
    /// rescheduling, redundant copies).
    pub reinjections: u64,
    /// Tail-loss probes and zero-window probes sent.
    pub probes: u64,
    /// Number of recovery phases.
    pub recoveries: u64,
    /// Number of expiries of the retransmission timer.
    pub timeouts: u64,
    /// Reactions to losses and timeouts that were undone because the loss or the timeout was spurious.
    pub undone: u64,
    /// Window reductions because of ECN.
    pub ecn_reductions: u64,
    /// Window reductions because a tail-loss probe repaired a loss, without a recovery phase.
    pub probe_reductions: u64,
    /// Window reductions because of timeouts.
    pub timeout_reductions: u64,
    /// Window reductions because the path held up the others (penalisation).
    pub penalisations: u64,
    /// Payload bytes that this path retransmitted.
    pub bytes_retransmitted: u64,
    /// Payload bytes that another path had carried before, by mechanism.
    pub bytes_repeated: Repeated,
}

/// Payload bytes that another path had carried before, by mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeated {
    /// Data that another path lost, or whose path failed.
    pub reinjection: u64,
    /// Data that blocked the receive window.
    pub opportunistic: u64,
    /// Copies of a scheduler that sends all data on every path.
    pub copy: u64,
    /// Copies of data in flight on another path, sent where the ranges of the two paths meet (confluent sequence
    /// numbers).
    pub confluence: u64,
    /// Copies of chunks that blocked a buffer (chunk rescheduling).
    pub rescheduling: u64,
}

impl Counters {
    /// Payload bytes sent by kind; they add up to [`bytes_sent`](Self::bytes_sent).
    pub fn bytes_by_kind(&self) -> [(&'static str, u64); 7] {
        let Repeated { reinjection, opportunistic, copy, confluence, rescheduling } = self.bytes_repeated;
        let repeated = reinjection + opportunistic + copy + confluence + rescheduling;
        [
            ("new", self.bytes_sent.saturating_sub(self.bytes_retransmitted + repeated)),
            ("retransmission", self.bytes_retransmitted),
            (DecisionReason::Reinjection.name(), reinjection),
            (DecisionReason::Opportunistic.name(), opportunistic),
            (DecisionReason::Copy.name(), copy),
            (DecisionReason::Confluence.name(), confluence),
            (DecisionReason::Rescheduling.name(), rescheduling),
        ]
    }

    /// Reductions of the window by cause, and the reductions that were undone because the loss was spurious.
    pub const fn reductions(&self) -> [(&'static str, u64); 5] {
        [
            ("loss", self.recoveries + self.probe_reductions),
            ("timeout", self.timeout_reductions),
            ("ecn", self.ecn_reductions),
            ("penalisation", self.penalisations),
            ("spurious", self.undone),
        ]
    }

    /// Counts payload bytes that another path had carried before and that are sent again for this reason.
    pub const fn count_repeated(&mut self, reason: DecisionReason, bytes: u64) {
        let repeated = &mut self.bytes_repeated;
        match reason {
            DecisionReason::Reinjection => repeated.reinjection += bytes,
            DecisionReason::Opportunistic => repeated.opportunistic += bytes,
            DecisionReason::Copy => repeated.copy += bytes,
            DecisionReason::Confluence => repeated.confluence += bytes,
            DecisionReason::Rescheduling => repeated.rescheduling += bytes,
            _ => {}
        }
    }
}
