//! The sender's record of what is outstanding: RFC 6675's scoreboard over whole segments.
//!
//! Segments stand in a deque in sequence order, so the one at an offset is found by binary search and a cumulative
//! acknowledgement takes from the front. What is already selectively acknowledged is also kept as merged ranges: a
//! SACK block that repeats known news costs one look-up, whatever its length. Marks of loss only move forward, so
//! every segment is visited once per recovery. No operation walks the whole list.

use multipath::buffer::RangeSet;
use multipath::time::Time;
use std::collections::VecDeque;

/// Duplicate acknowledgements that make a loss (RFC 6675 §2).
pub(crate) const DUP_THRESHOLD: u64 = 3;

/// What is believed of an outstanding segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// On its way.
    InFlight,
    /// Lost; it waits to be retransmitted.
    Lost,
    /// Lost, and its retransmission is on its way.
    Resent,
    /// On its way, and so is a retransmission: a probe, or one made in doubt.
    Doubled,
    /// Selectively acknowledged.
    Arrived,
}

/// An outstanding segment. Offsets count sequence numbers from the first data byte; a FIN takes the last one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub start: u64,
    pub len: u32,
    pub fin: bool,
    pub fate: Fate,
    /// It was ever retransmitted, so its round-trip time is ambiguous (Karn).
    pub ambiguous: bool,
    /// Last transmission.
    pub at: Time,
}

impl Sent {
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// Its part in RFC 6675's pipe: the original unless lost, and the retransmission if there is one.
    fn in_flight(&self) -> u64 {
        match self.fate {
            Fate::Lost | Fate::Arrived => 0,
            Fate::InFlight | Fate::Resent => u64::from(self.len),
            Fate::Doubled => 2 * u64::from(self.len),
        }
    }

    fn arrived(&self) -> bool {
        self.fate == Fate::Arrived
    }
}

/// What a cumulative acknowledgement took away.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    /// When the oldest segment was sent that this acknowledgement, and not an earlier SACK, reports. `None` if a segment
    /// among them was sent twice: what lay behind it may have waited for it at the receiver.
    pub oldest: Option<Time>,
    /// The same of the newest.
    pub newest: Option<Time>,
    /// Bytes that no SACK had reported before.
    pub delivered: u64,
    /// Where the first of these segments begins that was sent only once.
    pub original: Option<u64>,
    /// The latest-sent segment among them, for RACK: last transmission, end, whether retransmitted.
    pub latest: Option<(Time, u64, bool)>,
}

#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    segments: VecDeque<Sent>,
    sacked: RangeSet,
    pipe: u64,
    /// Segments below are sacked or marked lost.
    lost_mark: u64,
    /// No segment below waits to be retransmitted.
    cursor: u64,
    /// Bytes marked lost and not retransmitted.
    waiting: u64,
    /// What has been marked lost, start and end, if somebody asks.
    losses: Option<Vec<(u64, u64)>>,
}

impl Scoreboard {
    /// Bytes in flight.
    pub fn pipe(&self) -> u64 {
        self.pipe
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    #[cfg(test)]
    pub fn front(&self) -> Option<&Sent> {
        self.segments.front()
    }

    pub fn get(&self, index: usize) -> &Sent {
        &self.segments[index]
    }

    /// Bytes selectively acknowledged.
    pub fn sacked_bytes(&self) -> u64 {
        self.sacked.covered()
    }

    /// Offset behind the highest byte that is selectively acknowledged.
    pub fn highest_sacked(&self) -> Option<u64> {
        self.sacked.last().map(|(_, end)| end)
    }

    /// Whether to keep a list of what is marked lost.
    pub fn log_losses(&mut self, wanted: bool) {
        self.losses = wanted.then(Vec::new);
    }

    /// Takes that list.
    pub fn take_losses(&mut self) -> Vec<(u64, u64)> {
        self.losses.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Bytes marked lost that wait to be retransmitted.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Index of the segment that starts at `start`, if it is in flight and left at `sent` for the last time.
    pub fn in_flight_since(&self, start: u64, sent: Time) -> Option<usize> {
        let index = self.index_of(start);
        let segment = self.segments.get(index)?;
        let same = segment.start <= start && segment.at == sent;
        (same && segment.in_flight() > 0).then_some(index)
    }

    /// Index of the segment that holds `offset`, or of the first one behind it.
    pub fn index_of(&self, offset: u64) -> usize {
        self.segments.partition_point(|s| s.end() <= offset)
    }

    /// When the segment that holds `offset` left for the last time.
    pub fn sent_at(&self, offset: u64) -> Option<Time> {
        self.segments.get(self.index_of(offset)).map(|segment| segment.at)
    }

    /// A new segment left.
    pub fn push(&mut self, start: u64, len: u32, fin: bool, now: Time) {
        debug_assert!(self.segments.back().is_none_or(|last| last.end() == start));
        self.pipe += u64::from(len);
        self.segments.push_back(Sent { start, len, fin, fate: Fate::InFlight, ambiguous: false, at: now });
    }

    /// Everything below `ack` arrived.
    pub fn acknowledge(&mut self, ack: u64) -> Acked {
        let mut acked = Acked::default();
        let mut ambiguous = false;
        while let Some(front) = self.segments.front_mut() {
            if front.start >= ack {
                break;
            }
            let whole = front.end() <= ack;
            let gone = if whole { front.len } else { (ack - front.start) as u32 };
            let before = front.in_flight();
            ambiguous |= front.ambiguous;
            if !front.arrived() {
                acked.delivered += u64::from(gone);
                if front.fate == Fate::Lost {
                    self.waiting -= u64::from(gone);
                }
                if !front.ambiguous {
                    acked.original = acked.original.or(Some(front.start));
                }
                acked.oldest = acked.oldest.or(Some(front.at));
                acked.newest = Some(front.at);
                if acked.latest.is_none_or(|(at, end, _)| (front.at, front.end()) > (at, end)) {
                    acked.latest = Some((front.at, front.end(), front.ambiguous));
                }
            }
            if whole {
                self.pipe -= before;
                self.segments.pop_front();
            } else {
                front.start = ack;
                front.len -= gone;
                self.pipe -= before - front.in_flight();
                break;
            }
        }
        if ambiguous {
            (acked.oldest, acked.newest) = (None, None);
        }
        if !self.sacked.is_empty() {
            self.sacked.remove(0, ack);
        }
        self.lost_mark = self.lost_mark.max(ack);
        self.cursor = self.cursor.max(ack);
        acked
    }

    /// A SACK block reports `[left, right)`. Calls `each` for every segment that is newly acknowledged by it, before
    /// it is marked.
    pub fn sack(&mut self, left: u64, right: u64, mut each: impl FnMut(&Sent)) {
        let mut gaps: [(u64, u64); 4] = [(0, 0); 4];
        // More than four gaps within one block are rare: the outermost then cover the rest.
        let mut count = 0;
        for gap in self.sacked.gaps(left, right) {
            if count < gaps.len() {
                gaps[count] = gap;
                count += 1;
            } else {
                gaps[count - 1].1 = gap.1;
            }
        }
        if count == 0 {
            return;
        }
        self.sacked.insert(left, right);
        let (merged_left, merged_right) = self.sacked.range_at(left).unwrap_or((left, right));
        for &(from, to) in &gaps[..count] {
            for index in self.index_of(from)..self.segments.len() {
                let segment = &mut self.segments[index];
                if segment.start >= to {
                    break;
                }
                let covered = segment.start >= merged_left && segment.end() <= merged_right;
                if covered && !segment.arrived() {
                    each(segment);
                    self.pipe -= segment.in_flight();
                    if segment.fate == Fate::Lost {
                        self.waiting -= u64::from(segment.len);
                    }
                    segment.fate = Fate::Arrived;
                }
            }
        }
    }

    /// RFC 6675's `IsLost` for all segments at once: those below the third sacked range from the top, or below more
    /// than (`DupThresh` − 1)·SMSS sacked bytes, are lost.
    pub fn mark_lost_by_sack(&mut self, mss: u32) {
        let (mut bytes, mut ranges) = (0, 0);
        let mut below = None;
        for (start, end) in self.sacked.iter().rev() {
            bytes += end - start;
            ranges += 1;
            if ranges >= DUP_THRESHOLD || bytes > (DUP_THRESHOLD - 1) * u64::from(mss) {
                below = Some(start);
                break;
            }
        }
        if let Some(below) = below {
            self.mark_lost_below(below);
        }
    }

    /// Marks every unacknowledged segment below `below` as lost.
    pub fn mark_lost_below(&mut self, below: u64) {
        if below <= self.lost_mark {
            return;
        }
        for index in self.index_of(self.lost_mark)..self.segments.len() {
            if self.segments[index].start >= below {
                break;
            }
            self.mark_lost(index);
        }
        self.lost_mark = below;
    }

    /// Marks one segment as lost; a retransmission of it that was in flight is given up too.
    pub fn mark_lost(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        if segment.in_flight() == 0 {
            return;
        }
        self.pipe -= segment.in_flight();
        segment.fate = Fate::Lost;
        if let Some(losses) = &mut self.losses {
            losses.push((segment.start, segment.end()));
        }
        self.waiting += u64::from(segment.len);
        self.cursor = self.cursor.min(segment.start);
    }

    /// Marks the first segment as lost, if it is not already marked or retransmitted.
    pub fn mark_front_lost(&mut self) {
        if self.segments.front().is_some_and(|front| front.fate == Fate::InFlight) {
            self.mark_lost(0);
        }
    }

    /// The timer ran out: everything that is not selectively acknowledged counts as lost (RFC 6675 §5.1).
    /// If the first segment is sacked, the receiver reneged and no SACK can be trusted (RFC 2018 §8).
    pub fn mark_all_lost(&mut self) {
        let reneged = self.segments.front().is_some_and(Sent::arrived);
        if reneged {
            self.sacked.clear();
        }
        (self.pipe, self.waiting) = (0, 0);
        for segment in &mut self.segments {
            if reneged || !segment.arrived() {
                if let Some(losses) = &mut self.losses
                    && segment.in_flight() > 0
                {
                    losses.push((segment.start, segment.end()));
                }
                segment.fate = Fate::Lost;
                self.waiting += u64::from(segment.len);
            }
        }
        self.lost_mark = self.segments.back().map_or(self.lost_mark, Sent::end);
        self.cursor = self.segments.front().map_or(self.cursor, |front| front.start);
    }

    /// What waits to be retransmitted was not lost after all: it is in flight again. Tells when each of these segments
    /// left and where it begins, oldest first.
    pub fn restore(&mut self) -> Vec<(Time, u64)> {
        let mut restored = Vec::new();
        for segment in self.segments.iter_mut().filter(|segment| segment.fate == Fate::Lost) {
            segment.fate = Fate::InFlight;
            self.pipe += u64::from(segment.len);
            restored.push((segment.at, segment.start));
        }
        self.waiting = 0;
        self.lost_mark = self.segments.front().map_or(self.lost_mark, |front| front.start);
        restored.sort_unstable();
        restored
    }

    /// The next segment that is marked lost and not retransmitted (RFC 6675 `NextSeg` rule 1).
    pub fn next_lost(&mut self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        for index in self.index_of(self.cursor)..self.segments.len() {
            let segment = &self.segments[index];
            if segment.fate == Fate::Lost {
                return Some(index);
            }
            self.cursor = segment.end();
        }
        None
    }

    /// The next segment below the highest sacked byte that is neither sacked, lost nor retransmitted (`NextSeg` rule 3).
    pub fn next_doubtful(&self) -> Option<usize> {
        let highest = self.highest_sacked()?;
        let from = self.index_of(self.cursor.max(self.lost_mark));
        (from..self.segments.len())
            .take_while(|&i| self.segments[i].end() <= highest)
            .find(|&i| self.segments[i].fate == Fate::InFlight)
    }

    /// The highest segment that is not sacked (`NextSeg` rule 4).
    pub fn last_unsacked(&self) -> Option<usize> {
        (0..self.segments.len()).rev().find(|&i| !self.segments[i].arrived())
    }

    /// The segment at `index` was retransmitted.
    pub fn retransmitted(&mut self, index: usize, now: Time) {
        let segment = &mut self.segments[index];
        self.pipe -= segment.in_flight();
        segment.fate = match segment.fate {
            Fate::Lost => {
                self.waiting -= u64::from(segment.len);
                Fate::Resent
            }
            Fate::Resent => Fate::Resent,
            Fate::InFlight | Fate::Doubled => Fate::Doubled,
            Fate::Arrived => unreachable!("what has arrived is not sent again"),
        };
        segment.ambiguous = true;
        segment.at = now;
        self.pipe += segment.in_flight();
        if self.cursor == segment.start {
            self.cursor = segment.end();
        }
    }

    /// Cuts every segment from offset `from` on that carries more than `mss` bytes of data and has not arrived, as far as is known, into pieces
    /// that do not; they wait to be sent again. True if there was one. It is no sign of congestion, so it is not among
    /// what [`take_losses`](Self::take_losses) tells.
    pub fn resegment(&mut self, mss: u32, from: u64) -> bool {
        let fits = |s: &Sent| s.arrived() || s.end() <= from || s.len - u32::from(s.fin) <= mss;
        if self.segments.iter().all(fits) {
            return false;
        }
        let whole = core::mem::take(&mut self.segments);
        for segment in whole {
            if fits(&segment) {
                self.segments.push_back(segment);
                continue;
            }
            self.pipe -= segment.in_flight();
            if segment.fate != Fate::Lost {
                self.waiting += u64::from(segment.len);
            }
            self.cursor = self.cursor.min(segment.start);
            let mut start = segment.start;
            while start < segment.end() {
                let left = (segment.end() - start) as u32;
                let len = if left - u32::from(segment.fin) > mss { mss } else { left };
                let fin = segment.fin && len == left;
                let piece = Sent { start, len, fin, fate: Fate::Lost, ..segment };
                self.segments.push_back(piece);
                start += u64::from(len);
            }
        }
        true
    }

    /// Recomputes every counter from the segments: the invariant that tests hold the incremental ones against.
    #[cfg(test)]
    pub fn check(&self) {
        let pipe: u64 = self.segments.iter().map(Sent::in_flight).sum();
        assert_eq!(self.pipe, pipe, "pipe");
        let waiting: u64 = (self.segments.iter())
            .filter(|s| s.fate == Fate::Lost)
            .inspect(|s| assert!(s.start >= self.cursor, "the cursor passed {s:?}"))
            .map(|s| u64::from(s.len))
            .sum();
        assert_eq!(self.waiting, waiting, "waiting");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 100;

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        for i in 0..segments {
            board.push(i * u64::from(MSS), MSS, false, Time::from_nanos(i));
        }
        board
    }

    #[test]
    fn three_discontiguous_blocks_or_more_than_two_segments_make_a_loss() {
        let mut b = board(10);
        b.sack(100, 200, |_| {});
        b.sack(300, 400, |_| {});
        b.mark_lost_by_sack(MSS);
        assert_eq!((b.pipe(), b.waiting()), (800, 0));
        b.sack(500, 600, |_| {});
        b.mark_lost_by_sack(MSS);
        // Below the third block from the top there is only segment 0.
        assert_eq!(b.next_lost(), Some(0));
        assert_eq!(b.pipe(), 600);
        let mut b = board(10);
        b.sack(400, 700, |_| {});
        b.mark_lost_by_sack(MSS);
        assert_eq!(b.pipe(), 300); // four lost, three sacked
        b.check();
    }

    #[test]
    fn a_retransmission_counts_in_the_pipe_again() {
        let mut b = board(5);
        b.sack(100, 500, |_| {});
        b.mark_lost_by_sack(MSS);
        assert_eq!(b.pipe(), 0);
        b.retransmitted(0, Time::from_nanos(9));
        assert_eq!((b.pipe(), b.next_lost()), (100, None));
        let acked = b.acknowledge(500);
        assert_eq!((b.pipe(), acked.delivered), (0, 100));
        // Karn: the segment that was sent twice gives no sample; the others arrived long before this acknowledgement.
        assert_eq!((acked.oldest, acked.newest), (None, None));
    }

    #[test]
    fn what_a_sack_reported_before_gives_no_sample() {
        let mut b = board(3);
        b.sack(100, 200, |_| {});
        b.acknowledge(100);
        assert_eq!(b.acknowledge(200).oldest, None);
        assert_eq!(b.acknowledge(300).oldest, Some(Time::from_nanos(2)));
    }

    #[test]
    fn a_timeout_after_reneging_forgets_every_sack() {
        let mut b = board(3);
        b.sack(0, 100, |_| {});
        b.mark_all_lost();
        assert_eq!((b.sacked_bytes(), b.next_lost()), (0, Some(0)));
        b.check();
    }

    #[test]
    fn what_was_not_lost_after_all_is_in_flight_again_and_can_be_lost_again() {
        let mut b = board(6);
        b.sack(400, 600, |_| {});
        b.mark_all_lost();
        b.retransmitted(0, Time::from_nanos(50));
        let left: Vec<_> = b.restore().iter().map(|&(at, start)| (at.as_nanos(), start)).collect();
        assert_eq!(left, [(1, 100), (2, 200), (3, 300)]);
        assert_eq!((b.pipe(), b.waiting(), b.next_lost()), (400, 0, None));
        b.check();
        b.mark_lost_below(300);
        assert_eq!((b.pipe(), b.waiting(), b.next_lost()), (100, 300, Some(0)));
        b.check();
    }

    #[test]
    fn a_partial_acknowledgement_shortens_the_first_segment() {
        let mut b = board(2);
        b.acknowledge(30);
        assert_eq!((b.pipe(), b.front().map(|s| (s.start, s.len))), (170, Some((30, 70))));
        b.check();
    }

    #[test]
    fn what_is_too_long_is_cut_and_waits_to_be_sent_again() {
        let mut b = board(4);
        b.push(400, 31, true, Time::from_nanos(4));
        b.sack(100, 200, |_| {});
        // 331 in flight. Of 100 bytes, 40 a segment: 40, 40 and 20; the last 30 with their FIN fit as they are.
        assert!(b.resegment(40, 0));
        assert_eq!((b.pipe(), b.waiting()), (31, 300));
        let cut: Vec<_> = (0..11).map(|i| (b.get(i).start, b.get(i).len)).collect();
        let expected = [0, 40, 80, 100, 200, 240, 280, 300, 340, 380, 400];
        assert!(cut.iter().map(|c| c.0).eq(expected), "{cut:?}");
        assert_eq!(b.next_lost(), Some(0));
        b.check();
        assert!(!b.resegment(40, 0), "nothing is left to cut");
        b.resegment(20, 400);
        assert_eq!(b.get(0).len, 40, "before the offset nothing is cut");
        assert_eq!((b.get(b.index_of(400)).len, b.get(b.index_of(420)).fin), (20, true));
        b.check();
    }

    proptest! {
        #[test]
        fn counters_match_the_segments(steps in prop::collection::vec((0_u8..8, 0_u64..40, 1_u64..12), 1..80)) {
            let mut b = board(4);
            let mut next = 4;
            let mut acked = 0;
            for (kind, at, len) in steps {
                let now = Time::from_nanos(next);
                match kind {
                    0 => {
                        b.push(next * 100, MSS, false, now);
                        next += 1;
                    }
                    1 => {
                        acked = (acked + at * 25).min(next * 100);
                        b.acknowledge(acked);
                    }
                    2 => {
                        let left = acked + at * 50;
                        let right = (left + len * 100).min(next * 100);
                        if left < right {
                            b.sack(left, right, |_| {});
                        }
                    }
                    3 => b.mark_lost_by_sack(MSS),
                    4 => b.mark_all_lost(),
                    6 => drop(b.resegment(20 + len as u32 * 8, acked + at * 25)),
                    7 => drop(b.restore()),
                    _ => {
                        if let Some(i) = b.next_lost() {
                            b.retransmitted(i, now);
                        }
                    }
                }
                b.check();
            }
        }
    }
}
