//! One direction of a TCP connection or subflow, at the interface nearest to its sender.

use crate::data::Data;
use crate::ranges::{Added, Seen};
use crate::series::Point;
use crate::waits::RoundTrips;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::{Flags, Segment};

/// Number at which the unwrapping of sequence numbers begins, so that earlier numbers stay above zero.
const UNWRAP_BASE: u64 = 1 << 32;
/// Minimum time without a packet after which a retransmission counts as one by timeout (RFC 6298 §2.4 has 1 s, Linux
/// 0.2 s).
const MIN_TIMEOUT_NS: u64 = 190_000_000;
/// Minimum age of a gap for the data that fills it to count as a retransmission, while no round-trip time is known.
const MIN_LATE_NS: u64 = 5_000_000;
/// Maximum shift of a receive window (RFC 7323 §2.3).
const MAX_SHIFT: u8 = 14;

/// The factor of a host's receive windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scale {
    /// The handshake was not captured.
    #[default]
    Unknown,
    /// Shift from the SYN; 0 if the SYN has no window scale option.
    Shift(u8),
}

/// The data of a segment, and its state in this direction before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// Unwrapped sequence numbers of the payload.
    pub range: (u64, u64),
    pub added: Added,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub number: Serial,
    /// Receive window field of the segment.
    pub window: u16,
    pub scale: Scale,
    pub is_syn: bool,
    /// Timestamp of the acknowledgement's sender.
    pub stamp: Option<u32>,
    pub has_sack: bool,
}

/// State and counts of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sending {
    pub packets: u64,
    pub data_packets: u64,
    pub payload: u64,
    pub retransmitted: u64,
    pub retransmitted_packets: u64,
    /// Data that fills a gap before it has the age of a retransmission: the packets were reordered.
    pub reordered: u64,
    /// Data that fills a gap after a round-trip time: a retransmission of data that was lost before the interface.
    pub repaired: u64,
    pub timeouts: u64,
    pub syns: u32,
    pub marked: u64,
    pub first_ns: Option<u64>,
    pub last_ns: u64,
    pub isn: Option<Serial>,
    pub scale: Scale,
    pub mss: Option<u16>,
    pub has_sack: bool,
    /// The data of the direction. Its list of pieces for figures is used for plain TCP only.
    pub data: Data,
    /// Round-trip times from this interface to the receiver.
    pub far: RoundTrips,
    /// Round-trip times from this interface to the sender.
    pub near: RoundTrips,
    fin: Option<u64>,
    pending: Option<(u64, u64)>,
    echo: Option<(u32, u64)>,
    /// Time of the SYN/ACK that the next segment answers.
    answered_ns: Option<u64>,
}

impl Sending {
    /// Adds a piece of data for figures.
    pub fn record(&mut self, now_ns: u64, sent: &Sent, budget: &mut usize) {
        let len = (sent.range.1 - sent.range.0) as u32;
        let point = Point { at_ns: now_ns, subflow: 0, from: sent.range.0, len };
        self.data.pieces.add(point, sent.added.repeated > 0, budget);
    }

    /// The unwrapped number of a sequence number of this direction.
    pub fn unwrap(&self, number: Serial) -> u64 {
        let near = self.data.reference();
        number.unwrap_near(near.unwrap_or(UNWRAP_BASE | u64::from(number.0))).max(1)
    }

    /// Processes a segment of this direction.
    pub fn on_segment(&mut self, now_ns: u64, segment: &Segment) -> Sent {
        let gap_ns = now_ns.saturating_sub(self.last_ns);
        self.packets += 1;
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = self.last_ns.max(now_ns);
        if let (Some(stamps), Some((value, at_ns))) = (segment.options.timestamps, self.echo)
            && Serial(value).at_or_before(Serial(stamps.echo))
        {
            self.near.add(now_ns.saturating_sub(at_ns));
            self.echo = None;
        }
        let is_syn = segment.flags.intersects(Flags::SYN);
        if let Some(at_ns) = self.answered_ns.take().filter(|_| !is_syn) {
            self.near.add(now_ns.saturating_sub(at_ns));
        }
        let from = self.unwrap(segment.seq.add(u32::from(is_syn)));
        if is_syn {
            self.on_syn(now_ns, segment, from);
        }
        let to = from + u64::from(segment.payload.len);
        if segment.flags.intersects(Flags::FIN) {
            self.data.has_fin = true;
            self.fin = Some(to);
        }
        if from == to || self.is_probe(from, to) {
            return Sent { range: (from, from), added: Added::default() };
        }
        self.on_data((now_ns, gap_ns), (from, to))
    }

    fn on_syn(&mut self, now_ns: u64, segment: &Segment, from: u64) {
        self.syns += 1;
        self.isn = Some(segment.seq);
        self.scale = Scale::Shift(segment.options.window_scale.unwrap_or(0).min(MAX_SHIFT));
        self.mss = segment.options.mss;
        self.has_sack = segment.options.sack_permitted;
        if self.data.seen.is_none() {
            self.data.seen = Some(Seen::new(from));
        }
        self.pending = (self.syns == 1).then_some((from, now_ns));
    }

    /// True if a segment is a keep-alive or a window probe: at most one byte, which has been acknowledged already.
    fn is_probe(&self, from: u64, to: u64) -> bool {
        to - from <= 1 && self.data.acked.is_some_and(|acked| to <= acked)
    }

    fn on_data(&mut self, (now_ns, gap_ns): (u64, u64), (from, to): (u64, u64)) -> Sent {
        let late_ns = self.round_trip_ns().map_or(MIN_LATE_NS, |trip| (trip / 5 * 4).max(1_000_000));
        let seen = self.data.seen.get_or_insert_with(|| Seen::new(from));
        let added = seen.add((from, to), now_ns, late_ns);
        let (start, end) = (seen.start(), seen.end());
        let len = (to - from) as u32;
        self.data_packets += 1;
        self.payload += u64::from(len);
        self.data.first_ns.get_or_insert(now_ns);
        self.data.last_ns = now_ns;
        self.repaired += added.filled_late;
        self.reordered += added.filled - added.filled_late;
        if added.repeated > 0 {
            self.retransmitted += added.repeated;
            self.retransmitted_packets += 1;
        }
        let is_repair = added.repeated > 0 || added.filled_late > 0;
        let is_timeout = is_repair && self.is_timeout(from, gap_ns);
        self.timeouts += u64::from(is_timeout);
        self.data.view.on_data(now_ns, (start, end), (len, is_timeout));
        if is_repair {
            self.data.view.recover = Some(end);
            self.pending = None;
        } else if self.pending.is_none() {
            self.pending = Some((to, now_ns));
        }
        Sent { range: (from, to), added }
    }

    /// True if a retransmission of the first unacknowledged data, after a time without packets, is one by timeout.
    fn is_timeout(&self, from: u64, gap_ns: u64) -> bool {
        let min_silence_ns =
            self.round_trip_ns().map_or(MIN_TIMEOUT_NS, |trip| MIN_TIMEOUT_NS.max(trip + trip / 2));
        self.data.acked.is_some_and(|acked| from <= acked) && gap_ns >= min_silence_ns
    }

    /// Processes an acknowledgement of this direction's data, which reaches the sender `delay_ns` later.
    pub fn on_ack(&mut self, now_ns: u64, ack: &Ack, delay_ns: u64) {
        let number = self.unwrap(ack.number);
        let number = if self.fin.is_some_and(|fin| number == fin + 1) { number - 1 } else { number };
        let (before, number) = self.data.acknowledge(now_ns, number, true);
        if let Some((end, at_ns)) = self.pending
            && number >= end
        {
            self.far.add(now_ns.saturating_sub(at_ns));
            self.pending = None;
        }
        // The acknowledgement of data behind a gap is delayed until the repair, so it gives no round-trip sample.
        if ack.has_sack {
            self.pending = None;
        }
        if ack.is_syn {
            self.answered_ns = Some(now_ns);
        }
        if let (Some(stamp), None) = (ack.stamp, self.echo) {
            self.echo = Some((stamp, now_ns));
        }
        let shift = match ack.scale {
            _ if ack.is_syn => Some(0),
            Scale::Shift(shift) => Some(shift),
            Scale::Unknown => None,
        };
        let window = shift.map(|shift| u64::from(ack.window) << shift);
        if ack.has_sack && number == before && self.data.view.recover.is_none() {
            self.data.view.recover = self.data.seen.as_ref().map(Seen::end);
        }
        self.data.view.on_ack(now_ns, (number, window), delay_ns);
    }

    /// The smallest round-trip time of the whole path, nanoseconds.
    pub fn round_trip_ns(&self) -> Option<u64> {
        self.far.min_ns().map(|far| far + self.near.min_ns().unwrap_or(0))
    }
}

/// Counts of one direction at the interface nearest to the receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrived {
    pub packets: u64,
    pub data_packets: u64,
    pub payload: u64,
    seen: Option<Seen>,
}

impl Arrived {
    /// Number of different bytes of the stream at this interface.
    pub fn distinct(&self) -> u64 {
        self.seen.as_ref().map_or(0, Seen::count)
    }

    /// Processes a segment at this interface; its sequence numbers are unwrapped as at the sender's interface.
    pub fn on_segment(&mut self, now_ns: u64, (from, to): (u64, u64)) {
        self.packets += 1;
        if to > from {
            self.data_packets += 1;
            self.payload += to - from;
            let seen = self.seen.get_or_insert_with(|| Seen::new(from));
            seen.add((from, to), now_ns, 0);
        }
    }
}
