//! A subflow: a TCP block, the mappings of its data, and its part of the handshake.

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

/// Option bytes of a DSS with mapping and checksum (8-byte sequence number), padded, and of one that only acknowledges;
/// with acknowledgements of 4 bytes, and of 8.
const DSS: [(u32, u32); 2] = [(24, 8), (28, 12)];

/// The RST of a dead subflow is sent again at this interval, or once in its shortest round trip if that is longer.
pub(super) const RESET_INTERVAL: Duration = Duration::from_millis(500);
/// Limit of RSTs of a subflow.
const MAX_RESETS: u32 = 1200;

/// Whether the peer knows the keys of the connection's first handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmation {
    /// The other side has not shown that it knows our key.
    Awaited,
    /// As before, but the keys were sent since the last SYN/ACK.
    KeysSent,
    /// The other side has shown it.
    Confirmed,
}

/// Kind of handshake of a subflow, and its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// No Multipath TCP: the connection's only subflow.
    Plain,
    /// `MP_CAPABLE`.
    Capable(Confirmation),
    /// `MP_JOIN`, connecting side. After the SYN/ACK the code to send is known; confirmed by the fourth segment.
    Joining { nonce: u32, proof: Option<[u8; 20]>, confirmed: bool, resend: Option<Resend> },
    /// `MP_JOIN`, listening side. Confirmed by the third segment's code.
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
    /// Its handshake is not complete.
    Opening,
    /// `PathUp` was reported, then.
    Up { since: Time },
    /// This side sent, or is about to send, a FIN on it.
    Closing,
    /// The connection no longer uses it.
    Dead,
    /// The subflow was closed while its address was lost: an RST must still be sent to the peer.
    ResetPending,
}

/// Time of the next attempt on a pair of addresses whose subflow has failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retry {
    pub at: Option<Time>,
    /// Consecutive subflows that were not established or did not last.
    pub failures: u32,
}

/// Consecutive segments without the expected options: a middlebox may remove them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stripped {
    /// Segments without any of its options.
    pub bare: u32,
    /// How often the next byte in order arrived without a mapping, less the mapped data: see `fallback`.
    pub unmapped: u32,
}

#[derive(Debug)]
pub(super) struct Subflow {
    pub block: Tcb,
    pub pair: Pair,
    pub handshake: Handshake,
    pub life: Life,
    /// Either side wants it used only when no other subflow is available.
    pub backup: bool,
    /// Congestion control includes it in its sums.
    pub counted: bool,
    /// Sent mappings that the subflow has not acknowledged, ascending.
    pub sent: VecDeque<Mapping>,
    /// Positions on it are offsets of the data, in both directions: plain TCP could continue on it.
    pub identical: bool,
    /// Received mappings that are not used up.
    pub mappings: Mappings,
    pub stripped: Stripped,
    /// How often the next byte in order was refused since the last delivery, though a mapping covers it.
    pub disputed: u32,
    /// Data bytes this path brought that were new to the connection.
    pub new: u64,
    /// Position of this path in the data, for a redundant scheduler.
    pub cursor: u64,
    pub retry: Retry,
    /// It has been up, now or earlier.
    pub opened: bool,
    /// Why its handshake failed the last time.
    pub obstacle: Option<Obstacle>,
    /// The RST of the last subflow between these addresses, which the peer may not have received: sent again once the
    /// peer is heard.
    pub predecessor: Option<Packet>,
    /// The peer may not know that this subflow is a backup: a join contains the flag, the connection's first
    /// handshake does not.
    pub priority: Option<Resend>,
    /// While it is believed to have failed: when it is probed next.
    pub probe_at: Option<Time>,
    /// When the first unanswered probe was sent.
    pub probed_since: Option<Time>,
    /// Data sequence number of a mapping whose checksum was wrong: the RST that ends this subflow carries it.
    pub failed: Option<u64>,
    /// Time at which an unanswered `MP_FAIL` is retransmitted.
    pub fail_again: Time,
    /// Why this side resets it.
    pub farewell: Option<ResetReason>,
    /// Time at which the RST is sent again: only the peer can join again, and it may not have received the RST.
    pub reset_again: Option<Resend>,
    /// The peer reset it with the transient flag (RFC 8684 §3.6, T).
    pub transient: bool,
    /// Last penalisation.
    pub penalised_at: Option<Time>,
    /// A full buffer has kept its window from being used: it restarts at a limited rate.
    pub restart: Option<Restart>,
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
            farewell: None,
            reset_again: None,
            transient: false,
            penalised_at: None,
            restart: None,
        }
    }

    /// Acknowledgements of the data take 8 bytes, or 4.
    pub fn make_room(&mut self, congestion: &mut dyn CongestionControl, long: bool) {
        self.block.reserve_options(congestion, DSS[usize::from(long)]);
    }

    /// The connection no longer uses it.
    pub const fn is_dead(&self) -> bool {
        matches!(self.life, Life::Dead | Life::ResetPending)
    }

    /// `PathUp` was reported, and `PathDown` was not.
    pub const fn is_announced(&self) -> bool {
        matches!(self.life, Life::Up { .. } | Life::Closing)
    }

    /// Ends it with an RST that contains the reason.
    pub fn reset(&mut self, reason: ResetReason) {
        self.farewell = Some(reason);
        self.block.abort();
    }

    /// The handshake is complete, as far as sending data is concerned.
    pub fn is_confirmed(&self) -> bool {
        match self.handshake {
            Handshake::Plain | Handshake::Capable(_) => true,
            Handshake::Joining { confirmed, .. } | Handshake::Joined { confirmed, .. } => confirmed,
        }
    }

    /// It has carried data in either direction.
    pub fn has_worked(&self) -> bool {
        let counters = self.block.counters();
        counters.bytes_acked > 0 || counters.bytes_received > 0
    }

    /// New data may be scheduled on it: it is open and not believed to have failed.
    pub fn is_usable(&self) -> bool {
        matches!(self.life, Life::Opening | Life::Up { .. })
            && self.block.is_open()
            && self.is_confirmed()
            && self.block.attempts() == 0
    }

    /// Its window takes part in congestion control. Either it is usable, or it is the only subflow after fallback to
    /// plain TCP, which continues until the last byte is acknowledged, although the application has closed.
    pub fn may_count(&self) -> bool {
        let plain = self.handshake == Handshake::Plain && self.block.is_synchronised();
        self.is_usable() || plain && !self.is_dead() && self.block.attempts() == 0
    }

    /// It handles its segments itself: it is alive, or waits for stray ones.
    pub fn answers(&self) -> bool {
        !self.is_dead() || self.block.state() == State::TimeWait
    }

    /// It can still carry acknowledgements and control options.
    pub fn is_alive(&self) -> bool {
        !self.is_dead() && self.block.is_synchronised() && !self.block.is_over()
    }

    /// Time of its next retransmission or, in a paced restart, of its next segment.
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

    /// An interval, or the shortest round trip if that is longer.
    pub fn not_within_rtt(&self, interval: Duration) -> Duration {
        let rtt = self.block.rtt();
        // Without a sample there is no shortest round trip.
        rtt.srtt().map_or(interval, |_| rtt.min_rtt().max(interval))
    }

    /// The third segment of a join is repeated until the fourth arrives (RFC 8684 §3.2), at increasing intervals and
    /// not more often than a SYN would be.
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

    /// Drops mappings that the subflow has acknowledged, and passes each to `each`.
    pub fn prune(&mut self, mut each: impl FnMut(&Mapping)) {
        let acked = self.block.acknowledged();
        while let Some(mapping) = self.sent.front()
            && mapping.end() <= acked
        {
            each(mapping);
            self.sent.pop_front();
        }
    }

    /// The data offset of a position that was sent.
    pub fn data_of(&self, position: u64) -> Option<u64> {
        // Nearly always it is of the newest mapping.
        let newest = self.sent.back().filter(|mapping| mapping.start <= position);
        let mapping = match newest {
            Some(mapping) => mapping,
            None => self.sent.get(self.sent.partition_point(|m| m.end() <= position))?,
        };
        mapping.covers(position).then(|| mapping.data_at(position))
    }

    /// When the segment with this byte of the data was last sent, if the subflow has not acknowledged it.
    pub fn sent_at(&self, data: u64) -> Option<Time> {
        let mapping = self.sent.iter().find(|mapping| mapping.holds(data))?;
        self.block.sent_at(mapping.position_of(data))
    }

    /// Records that data is sent on this subflow.
    pub fn carry(&mut self, mapping: Mapping) {
        self.identical &= mapping.start == mapping.data;
        self.sent.push_back(mapping);
    }

    /// Stores a mapping that arrived.
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
