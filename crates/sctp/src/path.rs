//! One path of an association: its addresses, its state (RFC 9260 §8.2, §8.3), its timers and its data in
//! flight.

use super::counters::Blocking;
use super::pmtu::Discovery;
use super::reports::Reports;
use super::rescheduled_copies::RescheduledCopies;
use super::silence::Silence;
use super::totals::ChunkTotals;
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
pub(super) enum Reachability {
    /// No answer has come from there yet (RFC 9260 §5.4).
    Unconfirmed,
    /// It answers.
    Active,
    /// Too many errors in a row (RFC 9260 §8.2).
    Inactive,
    /// Its address was taken away (RFC 5061).
    Removed,
}

/// The heartbeat of a path (RFC 9260 §8.3).
#[derive(Clone, Copy, Debug)]
pub(super) enum Heartbeat {
    /// None is due.
    Off,
    /// The next one is due then, unless data flows.
    Idle { due: Time },
    /// One is to confirm the path as soon as it may (HB.Max.Burst).
    Queued,
    /// One was sent, from this local address, and not yet answered.
    Waiting { nonce: u64, source: IpAddr, until: Time },
}

/// A fast-recovery phase of a path (RFC 9260 §7.2.4).
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// Number of the phase within the association, to attribute losses to it.
    pub phase: u32,
    /// The newest transmission when it began; the phase ends when everything up to there has been acknowledged.
    pub exit: u64,
    /// Chunks found lost in it and not yet acknowledged.
    pub pending: u32,
}

/// State of the chunks that one reaction of a path, to missing reports or to a timeout, counted as lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Episode {
    /// Which of the association; 0 for none.
    pub number: u32,
    pub timeout: bool,
    /// Chunks counted as lost.
    pub lost: u32,
    /// Those of them that are known to have arrived the first time.
    pub shown: u32,
    /// The newest TSN that the SACK at hand acknowledges although it had not been sent again; 0 for none.
    pub newest: u64,
    /// SACKs that acknowledged such chunks.
    pub sacks: u32,
}

/// The retransmission of a chunk that counted as lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeat {
    pub path: u8,
    pub episode: u32,
    /// The chunk had been sent once, so that a duplicate proves which retransmission was spurious.
    pub sure: bool,
}

/// One transmission on a path's queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub tsn: u64,
    pub sent_as: u64,
}

/// Effects of one SACK on a path; filled and read while that SACK is handled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SackSummary {
    /// Newly acknowledged, as the congestion window counts it, bytes.
    pub acked: u64,
    /// In flight before the SACK, counted likewise.
    pub before: u64,
    /// The oldest transmission in flight before the SACK.
    pub oldest: Option<u64>,
    /// Highest and lowest transmission newly acknowledged, of chunks sent once.
    pub highest: u64,
    pub lowest: u64,
    /// When the highest one was sent.
    pub sent_at: Time,
    /// When the newest of the acknowledged chunks that no other path has carried was sent.
    pub answered: Option<Time>,
    /// The oldest chunk in flight was acknowledged (pseudo-cumulative advance).
    pub advanced: bool,
}

/// How a path is set up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub mtu: u32,
    pub i_data: bool,
    /// Bytes of the AUTH in packets to there, if there is one.
    pub auth_len: u32,
    /// The UDP ports of packets to there, if they travel in UDP.
    pub udp: Option<Ports>,
    pub rto: RtoBounds,
    pub missing_reports: u32,
}

/// A path.
#[derive(Debug)]
pub(super) struct Path {
    pub id: PathId,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// The UDP ports of packets to there, if they travel in UDP: the peer's is the one that its packets came from last
    /// (RFC 6951 §5.4).
    pub udp: Option<Ports>,
    /// Path MTU: the largest IP packet, bytes.
    pub mtu: u32,
    /// Bytes of an SCTP packet without common header and AUTH: the room for chunks.
    pub room: u32,
    /// Bytes of a chunk before its payload.
    pub header: u32,
    /// Largest payload of one packet.
    pub mss: u32,
    pub reachability: Reachability,
    pub rtt: RttEstimator,
    /// Errors in a row.
    pub errors: u32,
    /// Time of the last of them: only what was sent since proves that the path works.
    pub doubted: Option<Time>,
    /// Errors since a packet of the peer last came on any path, and the earliest time at which the next one
    /// counts.
    pub missed: u32,
    pub next_miss: Time,
    /// It has not answered, and there are other paths (potentially failed, RFC 7829 §3.2); it may have become inactive by now.
    pub suspect: bool,
    pub retransmission_timer: Option<Time>,
    pub heartbeat: Heartbeat,
    /// Path MTU discovery, if it is on.
    pub discovery: Option<Box<Discovery>>,
    /// Last transmission of anything that the peer answers.
    pub last_sent: Time,
    /// A round-trip time is measured with transmissions from this number on (once per round trip, RFC 9260 §6.3.1 C4).
    pub measure_from: u64,
    /// Sums over the chunks that the path carried last.
    pub totals: ChunkTotals,
    /// All transmissions in flight, oldest first.
    pub order: VecDeque<Flight>,
    /// Those that missing reports can make lost, oldest first.
    pub watch: VecDeque<Flight>,
    pub reports: Reports,
    /// Highest transmission ever acknowledged, of chunks sent once.
    pub highest_acked: u64,
    pub recovery: Option<Recovery>,
    /// Marks of chunks with lower TSNs have had their effect (ECN).
    pub marks_heard: u64,
    pub episode: Episode,
    pub rescheduled_copies: RescheduledCopies,
    /// Since when (or since its window was halved for that) its chunks have been moved, and when the last was.
    pub holds_up: Option<(Time, Time)>,
    /// Time at which a chunk that no other path had carried was last acknowledged, and the reaction to
    /// silence since.
    pub heard: Time,
    pub silence: Silence,
    /// The newest round-trip time of a chunk that was sent once.
    pub latest_rtt: Duration,
    /// Quarters of the smallest round-trip time by which packets may overtake each other, and the recovery phases for which
    /// that still holds.
    pub tolerance: u32,
    pub patient_for: u32,
    /// When a chunk that has its missing reports is lost if it has not come.
    pub patience_due: Option<Time>,
    /// Lost chunks to be sent here, and stale entries of chunks no longer lost.
    pub resend: BTreeSet<u64>,
    /// One packet of them goes out whatever the window says (RFC 9260 §7.2.4 rule 3).
    pub resend_now: bool,
    /// Packets of new data that may still leave in answer to the current event.
    pub burst_left: u32,
    pub summary: SackSummary,
    /// For a control that wants rate samples or paces.
    pub rate: Option<Box<PathRate>>,
    pub counters: Counters,
    /// Why nothing new left when nothing more was sent, if there was data.
    pub blocked: Option<Blocking>,
    /// Times by cause.
    pub clock: LimitClock,
    pub peak: DeliveryPeak,
    /// The window has left slow start, and nothing has happened since that could lead back to it.
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
            rescheduled_copies: RescheduledCopies::default(),
            holds_up: None,
            heard: Time::ZERO,
            silence: Silence::default(),
            latest_rtt: Duration::ZERO,
            tolerance: 0,
            patient_for: 0,
            patience_due: None,
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

    /// The path MTU is another, or the way that packets are wrapped; true if that changes the room for chunks.
    pub fn resize(&mut self, setup: &Setup) -> bool {
        (self.udp, self.mtu) = (setup.udp, setup.mtu);
        let before = self.room;
        (self.room, self.mss) = sizes(setup);
        before != self.room
    }

    pub fn active(&self) -> bool {
        self.reachability == Reachability::Active
    }

    /// The path answers, and there is no sign that it has stopped.
    pub fn healthy(&self) -> bool {
        self.active() && !self.suspect
    }

    /// Initial window (RFC 9260 §7.2.1), bytes. It counts chunks that fill a packet (PMDCS), with their
    /// headers.
    pub fn initial_window(&self) -> u64 {
        let full = u64::from(self.room);
        (4 * full).min((2 * full).max(4404))
    }

    /// Data in flight here as the congestion window counts it, bytes.
    pub const fn in_window(&self) -> u64 {
        self.totals.in_window(self.header) + self.rescheduled_copies.bytes()
    }

    /// Bytes of the congestion window that a chunk with `len` bytes of payload takes.
    pub const fn chunk_len(&self, len: u32) -> u32 {
        padded(self.header + len)
    }

    /// Nothing more fits a window of `cwnd` bytes of which `used` are: without overshooting, a window is full when no
    /// further packet fits.
    pub const fn fills(&self, cwnd: u64, used: u64, overshoot: bool) -> bool {
        let slack = if overshoot { 0 } else { self.room as u64 - 1 };
        used + slack >= cwnd
    }

    /// Starts the retransmission timer unless it runs.
    pub fn start_timer(&mut self, now: Time) {
        if self.retransmission_timer.is_none() {
            self.retransmission_timer = Some(now + self.rtt.rto());
        }
    }

    /// The next time at which something is due here.
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
        if let Some(due) = self.patience_due {
            next = next.min(due);
        }
        if let Some(sent_at) = self.rescheduled_copies.oldest() {
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

    /// Forgets everything in flight: the association restarts.
    pub fn reset(&mut self, setup: &Setup) {
        let Self { id, counters, blocked, clock, peak, .. } = *self;
        *self =
            Self { reachability: self.reachability, counters, blocked, clock, peak, ..Self::new(id, setup) };
    }

    /// Its address is back: nothing is known of it but what chunks it has carried.
    pub fn revive(&mut self, rto: RtoBounds) {
        self.reachability = Reachability::Unconfirmed;
        self.rtt = RttEstimator::new(rto);
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
    /// Room for chunks in a packet, without that of an AUTH, bytes.
    pub fn room(&self) -> u32 {
        let ip = if self.remote.is_ipv4() { 20 } else { 40 };
        let udp = if self.udp.is_some() { encapsulation::OVERHEAD } else { 0 };
        // Chunks end on multiples of four.
        self.mtu.saturating_sub(ip + udp + HEADER_LEN + self.auth_len) & !3
    }
}

/// Room for chunks in a packet, and for payload in a packet with one chunk, bytes.
fn sizes(setup: &Setup) -> (u32, u32) {
    let room = setup.room();
    (room, room.saturating_sub(header(setup.i_data)).max(1))
}

/// Bytes of a chunk before its payload.
const fn header(i_data: bool) -> u32 {
    if i_data { IData::HEADER_LEN } else { Data::HEADER_LEN }
}
