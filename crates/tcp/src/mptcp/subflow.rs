//! A subflow: a TCP block, the mappings of its data, and its state in the connection.

use super::keys::Key;
use super::mapping::{Mapping, Mappings, Received};
use super::reset::ResetReason;
use super::restart::Restart;
use crate::tcp::{State, Tcb};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::Obstacle;
use anabranch_multipath::congestion::CongestionControl;
use anabranch_multipath::path_manager::Pair;
use anabranch_wire::Packet;
use std::collections::VecDeque;

/// Bytes of the DSS option, padded: with mapping, checksum and `DATA_ACK`, and with a `DATA_ACK` only; for
/// `DATA_ACK`s of 4 and of 8 bytes (RFC 8684 §3.3).
const DSS_BYTES: [(u32, u32); 2] = [(24, 8), (28, 12)];

/// Interval between RSTs of a dead subflow, at least its shortest round trip.
pub(super) const RESET_INTERVAL: Duration = Duration::from_millis(500);
/// Limit of RSTs that a dead subflow sends.
const MAX_RESETS: u32 = 1200;

/// Whether the peer has received the keys of the connection's first handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmation {
    /// The peer has not shown that it knows the local key.
    Awaited,
    /// The answer is awaited, and the keys were sent since the last SYN/ACK.
    KeysSent,
    /// The peer has shown that it knows the local key.
    Confirmed,
}

/// Kind of handshake of a subflow, and its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// No Multipath TCP: the subflow is the whole connection.
    Plain,
    /// The first subflow, by `MP_CAPABLE`.
    Capable(Confirmation),
    /// `MP_JOIN` at the connecting end. The SYN/ACK determines `proof`, the HMAC of the third segment; the fourth
    /// segment confirms the join.
    Joining { nonce: u32, proof: Option<[u8; 20]>, confirmed: bool, resend: Option<Resend> },
    /// `MP_JOIN` at the listening end. The HMAC in the third segment confirms the join.
    Joined { nonces: (u32, u32), confirmed: bool },
}

/// Time of the next retransmission of a signal that is never acknowledged, and the number of transmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resend {
    pub at: Time,
    pub times: u32,
}

/// State of a subflow within its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// The subflow's handshake is not complete.
    Opening,
    /// The subflow is established, and `PathUp` was reported at this time.
    Up { since: Time },
    /// This end has sent its FIN on the subflow, or is about to.
    Closing,
    /// The connection no longer uses the subflow.
    Dead,
    /// The subflow was closed while the host lacked its address. The peer still has to receive an RST.
    ResetPending,
}

/// Time of the next attempt on a pair of addresses whose subflow has failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retry {
    pub at: Option<Time>,
    /// Consecutive subflows that were not established or did not last.
    pub failures: u32,
}

/// Consecutive segments without the expected options, which a middlebox may have removed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stripped {
    /// Consecutive segments without any Multipath TCP option.
    pub bare: u32,
    /// Weighted count of arrivals of the next byte in order without a mapping: see `fallback`.
    pub unmapped: u32,
}

#[derive(Debug)]
pub(super) struct Subflow {
    pub block: Tcb,
    pub pair: Pair,
    pub handshake: Handshake,
    pub life: Life,
    /// True if either end wants this subflow used only while no other is available.
    pub backup: bool,
    /// True if congestion control includes this path in its sums.
    pub counted: bool,
    /// Mappings that were sent and not acknowledged at the subflow level, ascending.
    pub sent: VecDeque<Mapping>,
    /// True while positions equal data offsets in both directions, so that the connection could continue on this
    /// subflow as plain TCP.
    pub identical: bool,
    /// Received mappings whose data was not yet passed on.
    pub mappings: Mappings,
    pub stripped: Stripped,
    /// Number of times since the last delivery that the next byte in order was refused although a mapping
    /// covers it.
    pub disputed: u32,
    /// Bytes that this path delivered first.
    pub new: u64,
    /// Position of this path in the data, for a scheduler that sends all data on each path.
    pub cursor: u64,
    pub retry: Retry,
    /// True once the subflow has been established.
    pub opened: bool,
    /// Reason for which the last handshake on this pair of addresses failed.
    pub obstacle: Option<Obstacle>,
    /// RST of the previous subflow on this pair of addresses, which the peer may not have received. It is sent again
    /// once a segment from the peer arrives.
    pub predecessor: Option<Packet>,
    /// Pending `MP_PRIO`: the peer may not know that this subflow is a backup. A join contains the flag, `MP_CAPABLE`
    /// does not.
    pub priority: Option<Resend>,
    /// Time of the next probe while the subflow is believed to have failed.
    pub probe_at: Option<Time>,
    /// Time of the first unanswered probe.
    pub probed_since: Option<Time>,
    /// Data sequence number of a mapping with a wrong checksum. The RST that ends this subflow contains it in an
    /// `MP_FAIL`.
    pub failed: Option<u64>,
    /// Time at which an unanswered `MP_FAIL` is retransmitted.
    pub fail_again: Time,
    /// Reason in the `MP_TCPRST` option when this end resets the subflow.
    pub reset_reason: Option<ResetReason>,
    /// Next repetition of the RST. The peer may not have received it, and only the peer can join again.
    pub reset_again: Option<Resend>,
    /// True if the peer's RST had the transient flag (RFC 8684 §3.6, T).
    pub transient: bool,
    /// Time of the last penalisation.
    pub penalised_at: Option<Time>,
    /// Paced restart after a full buffer has kept the window from being used.
    pub restart: Option<Restart>,
    /// Time of the next request for a route, if the connection has network control.
    pub request_at: Time,
}

impl Subflow {
    pub fn new(mut block: Tcb, pair: Pair, handshake: Handshake, backup: bool) -> Self {
        block.share_window();
        Self {
            block,
            pair,
            handshake,
            life: Life::Opening,
            backup,
            counted: true,
            sent: VecDeque::new(),
            identical: true,
            mappings: Mappings::default(),
            stripped: Stripped::default(),
            disputed: 0,
            new: 0,
            cursor: 0,
            retry: Retry::default(),
            opened: false,
            obstacle: None,
            predecessor: None,
            priority: None,
            probe_at: None,
            probed_since: None,
            failed: None,
            fail_again: Time::ZERO,
            reset_reason: None,
            reset_again: None,
            transient: false,
            penalised_at: None,
            restart: None,
            request_at: Time::ZERO,
        }
    }

    /// Reserves room for the DSS option with a `DATA_ACK` of 8 bytes (`long`) or 4.
    pub fn make_room(&mut self, congestion: &mut dyn CongestionControl, long: bool) {
        self.block.reserve_options(congestion, DSS_BYTES[usize::from(long)]);
    }

    /// Returns true if the connection no longer uses this subflow.
    pub const fn is_dead(&self) -> bool {
        matches!(self.life, Life::Dead | Life::ResetPending)
    }

    /// Returns true if `PathUp` was reported and `PathDown` was not.
    pub const fn is_announced(&self) -> bool {
        matches!(self.life, Life::Up { .. } | Life::Closing)
    }

    /// Resets the subflow; the RST contains the reason.
    pub fn reset(&mut self, reason: ResetReason) {
        self.reset_reason = Some(reason);
        self.block.abort();
    }

    /// Returns true once the handshake permits this end to send data.
    pub fn is_confirmed(&self) -> bool {
        match self.handshake {
            Handshake::Plain | Handshake::Capable(_) => true,
            Handshake::Joining { confirmed, .. } | Handshake::Joined { confirmed, .. } => confirmed,
        }
    }

    /// Returns true if the subflow has carried data in either direction.
    pub fn has_worked(&self) -> bool {
        let counters = self.block.counters();
        counters.bytes_acked > 0 || counters.bytes_received > 0
    }

    /// Returns true if new data may be scheduled: the subflow is open and not believed to have failed.
    pub fn is_usable(&self) -> bool {
        matches!(self.life, Life::Opening | Life::Up { .. })
            && self.block.is_open()
            && self.is_confirmed()
            && self.block.attempts() == 0
    }

    /// Returns true if the window takes part in congestion control: the subflow is usable, or carries the whole
    /// connection after fallback. The latter continues until the last byte is acknowledged, although the application
    /// has closed.
    pub fn may_count(&self) -> bool {
        let plain = self.handshake == Handshake::Plain && self.block.is_synchronised();
        self.is_usable() || plain && !self.is_dead() && self.block.attempts() == 0
    }

    /// Returns true if the block answers segments itself: the subflow is not dead, or is in TIME-WAIT.
    pub fn answers(&self) -> bool {
        !self.is_dead() || self.block.state() == State::TimeWait
    }

    /// Returns true if the subflow can still carry acknowledgements and control options.
    pub fn is_alive(&self) -> bool {
        !self.is_dead() && self.block.is_synchronised() && !self.block.is_over()
    }

    /// Time of the next probe, repetition of the third segment, or segment of a paced restart.
    pub fn next_repetition(&self) -> Time {
        let mut next = self.probe_at.unwrap_or(Time::MAX);
        if let Handshake::Joining { resend: Some(again), confirmed: false, .. } = self.handshake {
            next = next.min(again.at);
        }
        if let Some(at) = self.restart.and_then(|restart| restart.deadline()) {
            next = next.min(at);
        }
        next
    }

    /// Sends the RST of a dead subflow again if that is due.
    pub fn repeat_reset(&mut self, now: Time) {
        let Some(again) = self.reset_again.filter(|again| again.at <= now) else { return };
        let times = again.times + 1;
        self.reset_again =
            (times < MAX_RESETS).then_some(Resend { at: now + self.not_within_rtt(RESET_INTERVAL), times });
        self.block.abort();
    }

    /// The interval, or the shortest round trip if that is longer.
    pub fn not_within_rtt(&self, interval: Duration) -> Duration {
        let rtt = self.block.rtt();
        // Before the first sample there is no shortest round trip.
        rtt.srtt().map_or(interval, |_| rtt.min_rtt().max(interval))
    }

    /// Sends the third segment of a join again until the fourth arrives (RFC 8684 §3.2), at increasing intervals and
    /// not more often than a SYN.
    pub fn repeat_join(&mut self, now: Time, limit: u32) {
        let rto = self.block.rtt().rto();
        let Handshake::Joining { resend: Some(again), confirmed: false, .. } = &mut self.handshake else {
            return;
        };
        if again.at > now || !self.block.is_synchronised() {
            return;
        }
        if again.times >= limit {
            self.obstacle = Some(Obstacle::Stripped);
            self.reset(ResetReason::Middlebox);
        } else {
            *again =
                Resend { at: now + rto.saturating_mul(2 << again.times.min(16)), times: again.times + 1 };
            self.block.ack_now();
        }
    }

    /// Drops mappings that the peer has acknowledged at the subflow level, and passes each to `each`.
    pub fn prune(&mut self, mut each: impl FnMut(&Mapping)) {
        let acked = self.block.acknowledged();
        while let Some(mapping) = self.sent.front()
            && mapping.end() <= acked
        {
            each(mapping);
            self.sent.pop_front();
        }
    }

    /// Data offset of a position with outstanding data.
    pub fn data_of(&self, position: u64) -> Option<u64> {
        // Usually the newest mapping contains the position.
        let newest = self.sent.back().filter(|mapping| mapping.start <= position);
        let mapping = match newest {
            Some(mapping) => mapping,
            None => self.sent.get(self.sent.partition_point(|m| m.end() <= position))?,
        };
        mapping.covers(position).then(|| mapping.data_at(position))
    }

    /// Time of the last transmission of a byte of the data; `None` once the subflow has acknowledged it.
    pub fn sent_at(&self, data: u64) -> Option<Time> {
        let mapping = self.sent.iter().find(|mapping| mapping.holds(data))?;
        self.block.sent_at(mapping.position_of(data))
    }

    /// Records the mapping of data that is sent on this subflow.
    pub fn carry(&mut self, mapping: Mapping) {
        self.identical &= mapping.start == mapping.data;
        self.sent.push_back(mapping);
    }

    /// Stores a received mapping.
    pub fn learn(&mut self, received: Received) {
        self.identical &= received.mapping.start == received.mapping.data;
        self.mappings.learn(received, self.block.config().receive_buffer);
    }
}

/// The keys of both hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub local: Key,
    pub remote: Option<Key>,
}
