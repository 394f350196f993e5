//! The receiving half: reassembly, selective acknowledgements, delayed acknowledgements.

use super::Config;
use anabranch_base::time::Time;
use anabranch_multipath::buffer::RangeSet;
use anabranch_wire::Payload;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::{SackBlocks, Segment};

/// Time of the next acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pending {
    #[default]
    Nothing,
    Delayed(Time),
    Now,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    /// Sequence number of the first data byte.
    pub first: Serial,
    /// In-order bytes received; a received FIN adds one.
    pub nxt: u64,
    /// Highest right edge of the window ever advertised.
    pub edge: u64,
    ahead: RangeSet,
    /// Offset of the peer's FIN, once it has arrived.
    fin: Option<u64>,
    /// Recently reported blocks, newest first, each as an offset within it (RFC 2018 §4).
    recent: [Option<u64>; SackBlocks::MAX],
    /// A duplicate to report first (D-SACK, RFC 2883).
    duplicate: Option<(u64, u64)>,
    pending: Pending,
    /// Payload bytes since the last acknowledgement sent.
    unacknowledged: u64,
    /// Largest payload received, which counts as the "full-sized" segment for delayed acknowledgements.
    full_sized: u32,
    /// Largest payload of one packet. A larger segment was merged from several ones (GRO), and counts as
    /// several.
    largest: u32,
    /// Position and payload of the last segment.
    arrived: (u64, Payload),
    /// Parts of the last segment's payload that were new and have been kept, the last part first.
    kept: Vec<(u64, u64)>,
    /// True if the application reads no more, so that new data ends the connection.
    pub refuses: bool,
}

impl Receiver {
    pub fn new() -> Self {
        Self {
            first: Serial(0),
            nxt: 0,
            edge: 0,
            ahead: RangeSet::new(),
            fin: None,
            recent: [None; SackBlocks::MAX],
            duplicate: None,
            pending: Pending::Nothing,
            unacknowledged: 0,
            full_sized: 536,
            largest: u32::MAX,
            arrived: (0, Payload::EMPTY),
            kept: Vec::new(),
            refuses: false,
        }
    }

    /// Sets the largest payload of one packet of the peer. A larger payload counts as several packets.
    pub fn set_full_size(&mut self, bytes: u32) {
        self.largest = bytes;
    }

    /// Position of a sequence number.
    pub fn position(&self, seq: Serial) -> u64 {
        // Position 0 is the first data byte. The SYN before it gets the largest number, which is outside every
        // window.
        seq.distance_from(self.first, self.nxt)
    }

    /// The acknowledgement number to send.
    pub fn ack(&self) -> Serial {
        self.first.add(self.nxt as u32)
    }

    /// Bytes received behind a gap.
    pub fn out_of_order(&self) -> u64 {
        self.ahead.covered()
    }

    /// Number of ranges of out-of-order data that begin before a sequence number.
    pub fn ranges_before(&self, seq: Serial) -> u64 {
        let position = self.position(seq);
        if position > u64::MAX / 2 { 0 } else { self.ahead.count_below(position) as u64 }
    }

    /// Positions of out-of-order data, ascending.
    pub fn ahead(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ahead.iter()
    }

    /// Returns true if all data and the FIN have arrived.
    pub fn finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.nxt > fin)
    }

    /// In-order data bytes without the FIN.
    pub fn data(&self) -> u64 {
        self.nxt - u64::from(self.finished())
    }

    /// The parts of `[start, end)` that have not arrived yet, ascending.
    pub fn missing(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ahead.gaps(start.max(self.nxt), end)
    }

    /// The next kept part of the last segment's payload, and its offset in the stream.
    pub fn poll_kept(&mut self) -> Option<(Payload, u64)> {
        let (start, end) = self.kept.pop()?;
        let (first, payload) = self.arrived;
        Some((payload.part((start - first) as u32, (end - start) as u32), start))
    }

    /// Discards the kept parts of the previous segment.
    pub fn forget_kept(&mut self) {
        self.kept.clear();
    }

    fn keep(&mut self, (start, end): (u64, u64), payload: Payload) {
        self.arrived = (start, payload);
        let (from, to) = (start.max(self.nxt), end.min(start + u64::from(payload.len)));
        if self.ahead.is_empty() {
            if from < to {
                self.kept.push((from, to));
            }
        } else {
            self.kept.extend(self.ahead.gaps(from, to));
            self.kept.reverse();
        }
    }

    /// Stores payload and FIN of an acceptable segment that starts at `start`; data beyond the right edge `limit` is
    /// dropped. Returns the number of new bytes, including one for a FIN.
    pub fn store(
        &mut self,
        now: Time,
        config: &Config,
        segment: &Segment,
        (start, limit): (u64, u64),
    ) -> u64 {
        let data_end = start + u64::from(segment.payload.len);
        let fin = segment.flags.contains(anabranch_wire::tcp::Flags::FIN);
        let mut end = data_end.min(limit.max(start));
        // A FIN takes a sequence number, but needs no room in the window.
        if fin && end == data_end && self.ends_at(data_end) {
            end += 1;
        }
        if let Some(fin) = self.fin {
            end = end.min(fin + 1);
        }
        if end <= start {
            // Nothing was stored, but RFC 9293 §3.8.6.1 requires an answer.
            self.ack_now();
            return 0;
        }
        if segment.payload.len <= self.largest {
            self.full_sized = self.full_sized.max(segment.payload.len);
        }
        if end <= self.nxt {
            self.report_duplicate(start, end);
            return 0;
        }
        self.keep((start, end), segment.payload);
        let before = self.nxt;
        let new;
        if start <= self.nxt {
            (self.nxt, new) = self.ahead.absorb(self.nxt, end);
            self.unacknowledged += self.nxt - before;
            let gap_filled = self.nxt > end || !self.ahead.is_empty();
            self.schedule(now, config, gap_filled || self.finished());
        } else {
            new = self.ahead.insert(start, end);
            // The block around a duplicate follows it (RFC 2883 §4.2).
            self.remember(start);
            if new == 0 {
                self.report_duplicate(start, end);
            }
            self.ack_now();
        }
        new
    }

    /// Processes a FIN at position `at`; returns true if the peer's stream ends there. The first FIN counts, unless
    /// data beyond it has already arrived.
    fn ends_at(&mut self, at: u64) -> bool {
        let possible = at >= self.nxt && self.ahead.last().is_none_or(|(_, end)| end <= at);
        if self.fin.is_none() && possible {
            self.fin = Some(at);
        }
        self.fin == Some(at)
    }

    fn schedule(&mut self, now: Time, config: &Config, at_once: bool) {
        match config.delayed_ack {
            Some(delay) if !at_once && self.unacknowledged < 2 * u64::from(self.full_sized) => {
                if self.pending == Pending::Nothing {
                    self.pending = Pending::Delayed(now + delay);
                }
            }
            _ => self.pending = Pending::Now,
        }
    }

    fn report_duplicate(&mut self, start: u64, end: u64) {
        self.duplicate = Some((start, end));
        self.ack_now();
    }

    /// Makes the block around `offset` the newest one.
    fn remember(&mut self, offset: u64) {
        let block = self.ahead.range_at(offset);
        let mut keep = [Some(offset), None, None, None];
        let mut count = 1;
        for old in self.recent.into_iter().flatten() {
            if count < keep.len() && self.ahead.contains(old) && self.ahead.range_at(old) != block {
                keep[count] = Some(old);
                count += 1;
            }
        }
        self.recent = keep;
    }

    /// Returns true if there is a block or duplicate to report.
    pub fn has_blocks(&self) -> bool {
        !self.ahead.is_empty() || self.duplicate.is_some()
    }

    /// The SACK blocks to send: the newest first, at most `room`.
    pub fn sack_blocks(&mut self, room: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let wire = |offset: u64, first: Serial| first.add(offset as u32);
        if room == 0 {
            return blocks;
        }
        if let Some((start, end)) = self.duplicate.take() {
            blocks.push(wire(start, self.first), wire(end, self.first));
        }
        if self.ahead.is_empty() {
            return blocks;
        }
        for offset in self.recent.into_iter().flatten() {
            if blocks.as_slice().len() >= room.min(SackBlocks::MAX) {
                break;
            }
            if let Some((start, end)) = self.ahead.range_at(offset) {
                let block = (wire(start, self.first), wire(end, self.first));
                // Two remembered offsets may lie in one block, after a gap between them was filled.
                if !blocks.as_slice().contains(&block) {
                    blocks.push(block.0, block.1);
                }
            }
        }
        blocks
    }

    /// Requests an immediate acknowledgement.
    pub fn ack_now(&mut self) {
        self.pending = Pending::Now;
    }

    /// Returns true if an acknowledgement must be sent now.
    pub fn wants_ack(&self) -> bool {
        self.pending == Pending::Now
    }

    /// Time at which a delayed acknowledgement is due.
    pub fn deadline(&self) -> Option<Time> {
        match self.pending {
            Pending::Delayed(at) => Some(at),
            _ => None,
        }
    }

    /// Requests the acknowledgement if its delay is over.
    pub fn on_timeout(&mut self, now: Time) {
        if let Pending::Delayed(at) = self.pending
            && at <= now
        {
            self.pending = Pending::Now;
        }
    }

    /// Records that an acknowledgement was sent that advertises a window up to `edge`.
    pub fn acknowledged(&mut self, edge: u64) {
        self.pending = Pending::Nothing;
        self.unacknowledged = 0;
        self.duplicate = None;
        self.edge = self.edge.max(edge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::time::Duration;

    fn arrive(r: &mut Receiver, start: u64, len: u32) -> u64 {
        let segment = Segment { payload: Payload::new(start, len), ..Segment::default() };
        r.store(Time::ZERO, &Config::default(), &segment, (start, 1 << 20))
    }

    fn blocks(r: &mut Receiver) -> Vec<(u32, u32)> {
        r.sack_blocks(4).as_slice().iter().map(|(l, r)| (l.0, r.0)).collect()
    }

    #[test]
    fn sack_reports_newest_block_first_and_merges_blocks() {
        let mut r = Receiver::new();
        arrive(&mut r, 0, 1000);
        arrive(&mut r, 2000, 1000);
        arrive(&mut r, 4000, 1000);
        arrive(&mut r, 6000, 1000);
        assert_eq!(blocks(&mut r), [(6000, 7000), (4000, 5000), (2000, 3000)]);
        arrive(&mut r, 3000, 1000);
        assert_eq!(blocks(&mut r), [(2000, 5000), (6000, 7000)]);
        assert_eq!((arrive(&mut r, 1000, 1000), r.nxt), (1000, 5000));
        assert_eq!(blocks(&mut r), [(6000, 7000)]);
    }

    #[test]
    fn ranges_before_a_segment_are_counted() {
        let mut r = Receiver::new();
        r.first = Serial(u32::MAX - 500);
        arrive(&mut r, 0, 1000);
        for start in [2000, 4000, 6000] {
            arrive(&mut r, start, 1000);
        }
        let before = |start: u32| r.ranges_before(r.first.add(start));
        assert_eq!([1000, 1500, 2000, 3000, 6000, 7000].map(before), [0, 0, 0, 1, 2, 3]);
        // Data that has arrived, and the SYN before the first byte.
        assert_eq!([before(0), r.ranges_before(Serial(r.first.0 - 1))], [0, 0]);
    }

    #[test]
    fn receiver_keeps_only_new_parts_of_a_segment() {
        let mut r = Receiver::new();
        let mut kept = |start: u64, len: u32, mark: u64| {
            let segment = Segment { payload: Payload::new(mark, len), ..Segment::default() };
            r.forget_kept();
            r.store(Time::ZERO, &Config::default(), &segment, (start, 5500));
            core::iter::from_fn(|| r.poll_kept()).collect::<Vec<_>>()
        };
        assert_eq!(kept(2000, 1000, 7), [(Payload::new(7, 1000), 2000)]);
        assert_eq!(kept(1500, 1000, 100), [(Payload::new(100, 500), 1500)]);
        // Data [1500, 3000) has arrived, so both ends of [0, 4000) are new.
        let ends = [(Payload::new(50, 1500), 0), (Payload::new(50 + 3000, 1000), 3000)];
        assert_eq!(kept(0, 4000, 50), ends);
        assert_eq!(kept(0, 4000, 50), []);
        assert_eq!(kept(5000, 1000, 9), [(Payload::new(9, 500), 5000)], "the window cuts the payload");
    }

    #[test]
    fn a_duplicate_is_reported_once_and_first() {
        let mut r = Receiver::new();
        arrive(&mut r, 0, 1000);
        arrive(&mut r, 2000, 1000);
        assert_eq!(arrive(&mut r, 0, 1000), 0);
        assert_eq!(blocks(&mut r), [(0, 1000), (2000, 3000)]);
        assert_eq!(blocks(&mut r), [(2000, 3000)]);
    }

    #[test]
    fn dsack_beyond_gap_precedes_enclosing_block() {
        let mut r = Receiver::new();
        arrive(&mut r, 2000, 1000);
        arrive(&mut r, 4000, 1000);
        assert_eq!(arrive(&mut r, 2000, 500), 0);
        assert_eq!(blocks(&mut r), [(2000, 2500), (2000, 3000), (4000, 5000)]);
    }

    #[test]
    fn every_second_full_segment_is_acked_at_once() {
        let mut r = Receiver::new();
        arrive(&mut r, 0, 1000);
        assert!(!r.wants_ack());
        assert_eq!(r.deadline(), Some(Time::ZERO + Duration::from_millis(40)));
        arrive(&mut r, 1000, 1000);
        assert!(r.wants_ack());
        r.acknowledged(0);
        arrive(&mut r, 2000, 1000);
        r.on_timeout(Time::ZERO + Duration::from_millis(40));
        assert!(r.wants_ack());
    }

    #[test]
    fn merged_segment_counts_as_several() {
        let mut r = Receiver::new();
        r.set_full_size(1000);
        arrive(&mut r, 0, 64_000);
        assert!(r.wants_ack());
        r.acknowledged(0);
        arrive(&mut r, 64_000, 1000);
        assert!(!r.wants_ack());
        arrive(&mut r, 65_000, 1000);
        assert!(r.wants_ack(), "every second segment, as before");
    }

    #[test]
    fn fin_counts_once_all_data_has_arrived() {
        let mut r = Receiver::new();
        let mut fin = Segment { payload: Payload::new(1000, 1000), ..Segment::default() };
        fin.flags = anabranch_wire::tcp::Flags::FIN;
        r.store(Time::ZERO, &Config::default(), &fin, (1000, 1 << 20));
        assert!(!r.finished());
        arrive(&mut r, 0, 1000);
        assert!(r.finished());
        assert_eq!((r.nxt, r.data()), (2001, 2000));
    }

    #[test]
    fn positions_unwrap_around_the_sequence_space() {
        let mut r = Receiver::new();
        r.first = Serial(0xffff_ff00);
        assert_eq!(r.position(Serial(0x0000_0010)), 0x110);
        r.nxt = (1 << 33) + 5;
        assert_eq!(r.position(r.first.add(((1_u64 << 33) + 7) as u32)), (1 << 33) + 7);
    }
}
