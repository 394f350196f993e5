//! One path of an association: its addresses, its state (RFC 9260 §8.2, §8.3), its timers and its data in
//! flight.

use super::copies::Copies;
use super::pmtu::Discovery;
use super::reports::Reports;
use super::silence::Silence;
use crate::counters::Blocking;
use crate::totals::ChunkTotals;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_multipath::rtt::{RtoBounds, RttEstimator};
use anabranch_wire::sctp::encapsulation::{self, Ports};
use anabranch_wire::sctp::{Data, HEADER_LEN, IData, padded};
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeSet, VecDeque};

use anabranch_endpoint::endpoint::Counters;
use anabranch_endpoint::limits::{DeliveryPeak, LimitClock};
use anabranch_endpoint::rate::PathRate;

/// Reachability of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reachability {
    /// No answer has been received on the path yet (RFC 9260 §5.4).
    Unconfirmed,
    /// The path answers.
    Active,
    /// Too many consecutive errors (RFC 9260 §8.2).
    Inactive,
    /// The address was deleted (RFC 5061).
    Removed,
}

/// The heartbeat of a path (RFC 9260 §8.3).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heartbeat {
    /// No heartbeat is due.
    Off,
    /// Time of the next heartbeat, unless data is sent before.
    Idle { due: Time },
    /// The path waits to be confirmed, until HB.Max.Burst allows a heartbeat.
    Queued,
    /// A heartbeat was sent from this local address and has not been answered.
    Waiting { nonce: u64, source: IpAddr, until: Time },
}

/// A fast-recovery phase of a path (RFC 9260 §7.2.4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    /// Number of the phase within the association; identifies its losses.
    pub phase: u32,
    /// Number of the latest transmission at the start. The phase ends when all transmissions up to it are
    /// acknowledged.
    pub exit: u64,
    /// Chunks lost in this phase and not yet acknowledged.
    pub pending: u32,
}

/// Chunks counted as lost by one recovery phase or timeout of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Episode {
    /// Number of the phase or timeout within the association; 0 for none.
    pub number: u32,
    pub timeout: bool,
    /// Chunks counted as lost.
    pub lost: u32,
    /// Number of these chunks of which the first transmission is known to have arrived.
    pub shown: u32,
    /// The newest TSN acknowledged by the current SACK without a retransmission; 0 for none.
    pub newest: u64,
    /// Number of SACKs that acknowledged chunks without a retransmission.
    pub sacks: u32,
}

/// Retransmission of a chunk that was counted as lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeat {
    pub path: u8,
    pub episode: u32,
    /// True if the chunk had been sent only once before, so that a duplicate proves the retransmission spurious.
    pub sure: bool,
}

/// One transmission in a path's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub tsn: u64,
    pub sent_as: u64,
}

/// Effects of one SACK on a path; filled and read while that SACK is handled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SackSummary {
    /// Newly acknowledged bytes, as the congestion window counts them.
    pub acked: u64,
    /// Bytes in flight before the SACK, counted in the same way.
    pub before: u64,
    /// The oldest transmission in flight before the SACK.
    pub oldest: Option<u64>,
    /// Highest and lowest newly acknowledged transmissions of chunks that were sent once.
    pub highest: u64,
    pub lowest: u64,
    /// Time of the transmission `highest`.
    pub sent_at: Time,
    /// Time of the latest acknowledged transmission of a chunk that only this path has carried.
    pub answered: Option<Time>,
    /// True if the oldest chunk in flight was acknowledged (pseudo-cumulative advance).
    pub advanced: bool,
}

/// Settings of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub mtu: u32,
    pub i_data: bool,
    /// Bytes of the AUTH chunk in packets on this path, if the peer requires one.
    pub auth_len: u32,
    /// UDP ports of packets on this path, if they are encapsulated.
    pub udp: Option<Ports>,
    pub rto: RtoBounds,
    pub missing_reports: u32,
}

/// One path of an association.
#[derive(Debug)]
pub(crate) struct Path {
    pub id: PathId,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// UDP ports of packets on this path, if they are encapsulated. The peer's port is the source port of its last
    /// packet (RFC 6951 §5.4).
    pub udp: Option<Ports>,
    /// Path MTU: the largest IP packet, bytes.
    pub mtu: u32,
    /// Room for chunks in a packet, bytes: without common header and AUTH.
    pub room: u32,
    /// Header bytes of a data chunk.
    pub header: u32,
    /// Largest payload of a packet.
    pub mss: u32,
    pub reachability: Reachability,
    pub rtt: RttEstimator,
    /// Consecutive errors.
    pub errors: u32,
    /// Time of the last error: only an answer to a later packet proves that the path works.
    pub doubted: Option<Time>,
    /// Errors since the last packet from the peer on any path, and the earliest time at which the next one counts.
    pub missed: u32,
    pub next_miss: Time,
    /// True if the path has not answered and there are other paths (potentially failed, RFC 7829 §3.2). It may
    /// already be inactive.
    pub suspect: bool,
    pub retransmission_timer: Option<Time>,
    pub heartbeat: Heartbeat,
    /// Nonce and source of the last heartbeat that has not been answered and is no longer awaited.
    pub late_answer: Option<(u64, IpAddr)>,
    /// Path MTU discovery, if enabled.
    pub discovery: Option<Box<Discovery>>,
    /// Time of the last packet that the peer must answer.
    pub last_sent: Time,
    /// Number of the first transmission that gives the next sample of the round-trip time (one per round trip, RFC
    /// 9260 §6.3.1 C4).
    pub measure_from: u64,
    /// Totals over the chunks whose last transmission used this path.
    pub totals: ChunkTotals,
    /// All transmissions in flight, oldest first.
    pub order: VecDeque<Flight>,
    /// Transmissions that missing reports can mark as lost, oldest first.
    pub watch: VecDeque<Flight>,
    pub reports: Reports,
    /// Highest acknowledged transmission of chunks that were sent once.
    pub highest_acked: u64,
    pub recovery: Option<Recovery>,
    /// ECN marks of chunks below this TSN have been processed.
    pub marks_heard: u64,
    pub episode: Episode,
    pub copies: Copies,
    /// With a scheduler that sends all data on every path: the path has carried or skipped all chunks below this TSN.
    pub cursor: u64,
    /// Start of the current series of chunk moves away from this path, set again when its window is halved; and the
    /// time of the last move.
    pub holds_up: Option<(Time, Time)>,
    /// Time of the last acknowledgement of a chunk that only this path has carried, and the response to silence since
    /// then.
    pub heard: Time,
    pub silence: Silence,
    /// Latest round-trip time of a chunk that was sent once.
    pub latest_rtt: Duration,
    /// Reordering window in quarters of the minimum round-trip time, and the number of recovery phases for which it
    /// remains.
    pub tolerance: u32,
    pub patient_for: u32,
    /// Time at which a chunk with enough missing reports is lost if it has not been acknowledged.
    pub reordering_due: Option<Time>,
    /// Lost chunks to retransmit on this path. Entries of chunks that are no longer lost are stale.
    pub resend: BTreeSet<u64>,
    /// True if one packet of lost chunks may be sent regardless of the window (RFC 9260 §7.2.4 rule 3).
    pub resend_now: bool,
    /// Packets of new data that may still be sent in response to the current event.
    pub burst_left: u32,
    pub summary: SackSummary,
    /// Rate estimator of a congestion control that needs rate samples or pacing.
    pub rate: Option<Box<PathRate>>,
    pub counters: Counters,
    /// Cause for which no new data was sent at the last opportunity, if there was data.
    pub blocked: Option<Blocking>,
    /// Times by the cause that limits sending.
    pub clock: LimitClock,
    pub peak: DeliveryPeak,
    /// True if the window has left slow start, and no later event can have led back to it.
    pub avoids: bool,
}

impl Path {
    pub fn new(id: PathId, setup: &Setup) -> Self {
        let (room, mss) = sizes(setup);
        let header = header(setup.i_data);
        Self {
            id,
            local: setup.local,
            remote: setup.remote,
            udp: setup.udp,
            mtu: setup.mtu,
            room,
            header,
            mss,
            reachability: Reachability::Unconfirmed,
            rtt: RttEstimator::new(setup.rto),
            errors: 0,
            doubted: None,
            missed: 0,
            next_miss: Time::ZERO,
            suspect: false,
            retransmission_timer: None,
            heartbeat: Heartbeat::Off,
            late_answer: None,
            discovery: None,
            last_sent: Time::ZERO,
            measure_from: 0,
            totals: ChunkTotals::default(),
            order: VecDeque::new(),
            watch: VecDeque::new(),
            reports: Reports::new(setup.missing_reports),
            highest_acked: 0,
            recovery: None,
            marks_heard: 0,
            episode: Episode::default(),
            copies: Copies::default(),
            cursor: 0,
            holds_up: None,
            heard: Time::ZERO,
            silence: Silence::default(),
            latest_rtt: Duration::ZERO,
            tolerance: 0,
            patient_for: 0,
            reordering_due: None,
            resend: BTreeSet::new(),
            resend_now: false,
            burst_left: u32::MAX,
            summary: SackSummary::default(),
            rate: None,
            counters: Counters::default(),
            blocked: None,
            clock: LimitClock::default(),
            peak: DeliveryPeak::default(),
            avoids: false,
        }
    }

    /// Updates path MTU and encapsulation; true if the room for chunks has changed.
    pub fn resize(&mut self, setup: &Setup) -> bool {
        (self.udp, self.mtu) = (setup.udp, setup.mtu);
        let before = self.room;
        (self.room, self.mss) = sizes(setup);
        before != self.room
    }

    pub fn active(&self) -> bool {
        self.reachability == Reachability::Active
    }

    /// True if the path is active and not suspected.
    pub fn healthy(&self) -> bool {
        self.active() && !self.suspect
    }

    /// Initial window (RFC 9260 §7.2.1), bytes: chunks that fill a packet (PMDCS), with their headers.
    pub fn initial_window(&self) -> u64 {
        let full = u64::from(self.room);
        (4 * full).min((2 * full).max(4404))
    }

    /// Bytes in flight on this path, as the congestion window counts them.
    pub const fn in_window(&self) -> u64 {
        self.totals.in_window(self.header) + self.copies.bytes()
    }

    /// Bytes in flight, with those of copies if the scheduler sends all data on every path.
    pub const fn in_flight(&self, with_copies: bool) -> u64 {
        self.totals.in_flight() + if with_copies { self.copies.bytes() } else { 0 }
    }

    /// Bytes of the congestion window that a chunk with `len` bytes of payload takes.
    pub const fn chunk_len(&self, len: u32) -> u32 {
        padded(self.header + len)
    }

    /// True if a window of `cwnd` bytes, of which `used` are in use, is full. Without overshoot it is full when another
    /// packet does not fit.
    pub const fn fills(&self, cwnd: u64, used: u64, overshoot: bool) -> bool {
        let slack = if overshoot { 0 } else { self.room as u64 - 1 };
        used + slack >= cwnd
    }

    /// Starts the retransmission timer unless it is running.
    pub fn start_timer(&mut self, now: Time) {
        if self.retransmission_timer.is_none() {
            self.retransmission_timer = Some(now + self.rtt.rto());
        }
    }

    /// Time of the next timer event of this path.
    pub fn next_timeout(&self) -> Time {
        let mut next = match self.heartbeat {
            Heartbeat::Off | Heartbeat::Queued => Time::MAX,
            Heartbeat::Idle { due } => due,
            Heartbeat::Waiting { until, .. } => until,
        };
        next = next.min(self.silence.due());
        if let Some(due) = self.retransmission_timer {
            next = next.min(due);
        }
        if let Some(due) = self.reordering_due {
            next = next.min(due);
        }
        if let Some(sent_at) = self.copies.oldest() {
            next = next.min(sent_at + self.rtt.rto());
        }
        if let Some(due) = self.rate.as_ref().and_then(|rate| rate.deadline()) {
            next = next.min(due);
        }
        if let Some(discovery) = self.discovery.as_ref().filter(|_| self.active()) {
            next = next.min(discovery.due());
        }
        next
    }

    /// Clears everything in flight, because the association restarts.
    pub fn reset(&mut self, setup: &Setup) {
        let Self { id, counters, blocked, clock, peak, .. } = *self;
        *self =
            Self { reachability: self.reachability, counters, blocked, clock, peak, ..Self::new(id, setup) };
    }

    /// Resets all state except the counters, because the address of the path was added again.
    pub fn revive(&mut self, rto: RtoBounds) {
        self.reachability = Reachability::Unconfirmed;
        self.rtt = RttEstimator::new(rto);
        self.late_answer = None;
        self.forget_errors();
        self.suspect = false;
    }

    /// Time until the next heartbeat: interval + RTO ± half an RTO (RFC 9260 §8.3); `draw` is uniform in [0, 1).
    pub fn heartbeat_period(&self, interval: Duration, draw: f64) -> Duration {
        let rto = self.rtt.rto().as_secs_f64();
        interval + Duration::from_secs_f64(rto * (0.5 + draw))
    }
}

impl Setup {
    /// Room for chunks in a packet without AUTH, bytes.
    pub fn room(&self) -> u32 {
        let ip = if self.remote.is_ipv4() { 20 } else { 40 };
        let udp = if self.udp.is_some() { encapsulation::OVERHEAD } else { 0 };
        // Chunks are padded to multiples of four bytes.
        self.mtu.saturating_sub(ip + udp + HEADER_LEN + self.auth_len) & !3
    }
}

/// Room for chunks in a packet, and for payload in a packet with one chunk, bytes.
fn sizes(setup: &Setup) -> (u32, u32) {
    let room = setup.room();
    (room, room.saturating_sub(header(setup.i_data)).max(1))
}

/// Header bytes of a data chunk.
const fn header(i_data: bool) -> u32 {
    if i_data { IData::HEADER_LEN } else { Data::HEADER_LEN }
}
