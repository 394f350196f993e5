//! The sender's record of outstanding data: the scoreboard of RFC 6675 with whole segments.
//!
//! Segments stand in a deque in sequence order: a binary search finds the segment at an offset, and a cumulative
//! acknowledgement removes segments at the front. Selectively acknowledged data is also kept as merged ranges, so
//! that a SACK block that repeats a known range costs one look-up, whatever its length. Marks of loss only move
//! forward, so every segment is visited once per recovery. No operation of a sender walks the whole list.
//!
//! A middlebox may split segments, so an acknowledgement may end inside one. The segment is cut there: each part has
//! a separate state, and only the missing part is retransmitted.

use anabranch_base::time::Time;
use anabranch_multipath::buffer::RangeSet;
use std::collections::VecDeque;

/// Duplicate acknowledgements that indicate a loss (RFC 6675 §2).
pub(crate) const DUP_THRESHOLD: u64 = 3;
/// Maximum number of segments that are cut in two while a selective acknowledgement is present: a SACK may end within a
/// segment. Only a peer that acknowledges single bytes causes more. Then a segment counts as arrived once all of it has.
const MAX_CUTS: u32 = 8192;

/// Assumed state of an outstanding segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentState {
    /// In flight.
    InFlight,
    /// Marked lost, and not retransmitted yet.
    Lost,
    /// Marked lost, and the retransmission is in flight.
    Retransmitted,
    /// The original is in flight, and so is a retransmission: a probe, or a retransmission of data that may
    /// not be lost.
    Duplicated,
    /// Selectively acknowledged.
    Sacked,
}

/// Smallest number of segments for which memory is kept.
const MIN_KEPT_SEGMENTS: usize = 64;

/// An outstanding segment. Offsets count sequence numbers from the first data byte; a FIN takes the last one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub start: u64,
    pub len: u32,
    pub fin: bool,
    pub state: SegmentState,
    /// True if the segment was retransmitted, so that its round-trip time is ambiguous (Karn's algorithm).
    pub ambiguous: bool,
    /// True if this is a cut part: it was sent together with the segment before it.
    pub continues: bool,
    /// Time of the last transmission.
    pub at: Time,
}

impl Sent {
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// Bytes of the segment in RFC 6675's pipe: the original unless lost, and the retransmission if there is one.
    fn in_flight(&self) -> u64 {
        match self.state {
            SegmentState::Lost | SegmentState::Sacked => 0,
            SegmentState::InFlight | SegmentState::Retransmitted => u64::from(self.len),
            SegmentState::Duplicated => 2 * u64::from(self.len),
        }
    }

    fn arrived(&self) -> bool {
        self.state == SegmentState::Sacked
    }
}

/// Data that a cumulative acknowledgement removes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    /// Send time of the oldest segment that no SACK had reported before. `None` if one of the segments was sent
    /// twice, because data behind it may have waited for it at the receiver.
    pub oldest: Option<Time>,
    /// Send time of the newest such segment, with the same exception.
    pub newest: Option<Time>,
    /// Bytes that no SACK had reported before.
    pub delivered: u64,
    /// Start of the first newly acknowledged segment that was sent only once.
    pub original: Option<u64>,
    /// Of the newly acknowledged segments, the one that was sent last, for RACK: last transmission, end, and whether it
    /// is a retransmission.
    pub latest: Option<(Time, u64, bool)>,
    /// Of the newly acknowledged segments, the last in sequence: last transmission, and whether it is a retransmission.
    pub last: Option<(Time, bool)>,
}

#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    segments: VecDeque<Sent>,
    sacked: RangeSet,
    pipe: u64,
    /// Every segment below is sacked or marked lost.
    lost_mark: u64,
    /// No segment before this index waits to be retransmitted.
    cursor: u64,
    /// Bytes marked lost and not retransmitted.
    waiting: u64,
    /// Number of segments cut in two since the time when no data was selectively acknowledged.
    cuts: u32,
    /// Ranges marked lost, start and end, if `log_losses` requested them.
    losses: Option<Vec<(u64, u64)>>,
}

impl Scoreboard {
    /// Bytes marked lost, retransmitted or not, and bytes of which a retransmission is in flight. For reports: it walks the
    /// list.
    pub fn lost_and_retransmitted(&self) -> (u64, u64) {
        let bytes = |states: [SegmentState; 2]| {
            let of = self.segments.iter().filter(|sent| states.contains(&sent.state));
            of.map(|sent| u64::from(sent.len)).sum()
        };
        let (lost, repeated) = (SegmentState::Lost, SegmentState::Retransmitted);
        (bytes([lost, repeated]), bytes([repeated, SegmentState::Duplicated]))
    }

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

    /// Offset behind the highest selectively acknowledged byte.
    pub fn highest_sacked(&self) -> Option<u64> {
        self.sacked.last().map(|(_, end)| end)
    }

    /// Sets whether to record the ranges that are marked lost.
    pub fn log_losses(&mut self, wanted: bool) {
        self.losses = wanted.then(Vec::new);
    }

    /// Takes the recorded ranges.
    pub fn take_losses(&mut self) -> Vec<(u64, u64)> {
        self.losses.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Bytes marked lost that wait to be retransmitted.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Index of the first part in flight of a segment that was sent at time `sent` and begins at offset
    /// `start`.
    ///
    /// If its first bytes have been acknowledged, the part begins behind `start`. If all of it has been
    /// acknowledged, the result may be another segment that was sent at the same time, which loss detection
    /// treats alike.
    pub fn in_flight_since(&self, start: u64, sent: Time) -> Option<usize> {
        let first = self.index_of(start);
        (first..self.segments.len())
            .take_while(|&index| index == first || self.segments[index].continues)
            .find(|&index| self.segments[index].at == sent && self.segments[index].in_flight() > 0)
    }

    /// Index of the segment that holds `offset`, or of the first one behind it.
    pub fn index_of(&self, offset: u64) -> usize {
        self.segments.partition_point(|s| s.end() <= offset)
    }

    /// Time at which the segment that contains `offset` was last sent; `None` once it is acknowledged.
    pub fn sent_at(&self, offset: u64) -> Option<Time> {
        self.segments.get(self.index_of(offset)).filter(|s| s.start <= offset).map(|s| s.at)
    }

    /// Adds a new segment.
    pub fn push(&mut self, start: u64, len: u32, fin: bool, now: Time) {
        debug_assert!(self.segments.back().is_none_or(|last| last.end() == start));
        self.pipe += u64::from(len);
        let state = SegmentState::InFlight;
        self.segments.push_back(Sent { start, len, fin, state, ambiguous: false, continues: false, at: now });
    }

    /// Processes a cumulative acknowledgement up to `ack`.
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
                if front.state == SegmentState::Lost {
                    self.waiting -= u64::from(gone);
                }
                if !front.ambiguous {
                    acked.original = acked.original.or(Some(front.start));
                }
                acked.oldest = acked.oldest.or(Some(front.at));
                acked.newest = Some(front.at);
                acked.last = Some((front.at, front.ambiguous));
                // Only the acknowledged part of a partly acknowledged segment counts.
                let reached = front.end().min(ack);
                if acked.latest.is_none_or(|(at, end, _)| (front.at, reached) > (at, end)) {
                    acked.latest = Some((front.at, reached, front.ambiguous));
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
            if self.sacked.is_empty() {
                self.cuts = 0;
                self.release_memory();
            }
        }
        self.lost_mark = self.lost_mark.max(ack);
        self.cursor = self.cursor.max(ack);
        acked
    }

    /// Releases memory after a loss, if less than a quarter of it is in use: the first loss ends a slow start, whose last
    /// round trip is the longest list of many connections.
    fn release_memory(&mut self) {
        let kept = MIN_KEPT_SEGMENTS.max(2 * self.segments.len());
        if self.segments.capacity() > 2 * kept {
            self.segments.shrink_to(kept);
        }
    }

    /// Processes a SACK block `[left, right)`. Calls `each` with every newly acknowledged segment before it is
    /// marked.
    pub fn sack(&mut self, left: u64, right: u64, mut each: impl FnMut(&Sent)) {
        let mut gaps: [(u64, u64); 4] = [(0, 0); 4];
        // A block rarely contains more than four gaps. If it does, the outermost ones include the rest.
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
        self.cut(merged_left);
        self.cut(merged_right);
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
                    if segment.state == SegmentState::Lost {
                        self.waiting -= u64::from(segment.len);
                    }
                    segment.state = SegmentState::Sacked;
                }
            }
        }
    }

    /// Cuts the segment that contains `offset` in two there, unless it has arrived.
    fn cut(&mut self, offset: u64) {
        let index = self.index_of(offset);
        let Some(segment) = self.segments.get_mut(index) else { return };
        if segment.start >= offset || segment.arrived() || self.cuts == MAX_CUTS {
            return;
        }
        let head = (offset - segment.start) as u32;
        let rest = Sent { start: offset, len: segment.len - head, continues: true, ..*segment };
        (segment.len, segment.fin) = (head, false);
        self.segments.insert(index + 1, rest);
        self.cuts += 1;
    }

    /// RFC 6675's `IsLost` for all segments at once: a segment is lost if it is below the third sacked range from the
    /// top, or below more than (`DupThresh` − 1)·SMSS sacked bytes.
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
        let mut mark = below;
        for index in self.index_of(self.lost_mark)..self.segments.len() {
            if self.segments[index].start >= below {
                break;
            }
            // A SACK may begin inside this segment. Its retransmission must not be marked lost together with the data
            // behind it.
            mark = mark.max(self.segments[index].end());
            self.mark_lost(index);
        }
        self.lost_mark = mark;
    }

    /// Marks one segment as lost, including a retransmission of it that was in flight.
    pub fn mark_lost(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        if segment.in_flight() == 0 {
            return;
        }
        self.pipe -= segment.in_flight();
        segment.state = SegmentState::Lost;
        if let Some(losses) = &mut self.losses {
            losses.push((segment.start, segment.end()));
        }
        self.waiting += u64::from(segment.len);
        self.cursor = self.cursor.min(segment.start);
    }

    /// Marks the first segment as lost, if it is not already marked or retransmitted.
    pub fn mark_front_lost(&mut self) {
        if self.segments.front().is_some_and(|front| front.state == SegmentState::InFlight) {
            self.mark_lost(0);
        }
    }

    /// Marks everything as lost that is not selectively acknowledged, after a timeout (RFC 6675 §5.1). If the first
    /// segment is sacked, the receiver has reneged, and all SACKs are discarded (RFC 2018 §8).
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
                segment.state = SegmentState::Lost;
                self.waiting += u64::from(segment.len);
            }
        }
        self.lost_mark = self.segments.back().map_or(self.lost_mark, Sent::end);
        self.cursor = self.segments.front().map_or(self.cursor, |front| front.start);
    }

    /// Puts the segments that wait to be retransmitted in flight again, because they were not lost. Returns send time
    /// and position of each, oldest first.
    pub fn restore(&mut self) -> Vec<(Time, u64)> {
        let mut restored = Vec::new();
        for segment in self.segments.iter_mut().filter(|segment| segment.state == SegmentState::Lost) {
            segment.state = SegmentState::InFlight;
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
            if segment.state == SegmentState::Lost {
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
            .find(|&i| self.segments[i].state == SegmentState::InFlight)
    }

    /// The highest segment that is not sacked (`NextSeg` rule 4).
    pub fn last_unsacked(&self) -> Option<usize> {
        (0..self.segments.len()).rev().find(|&i| !self.segments[i].arrived())
    }

    /// Records that the segment at `index` was retransmitted.
    pub fn retransmitted(&mut self, index: usize, now: Time) {
        let segment = &mut self.segments[index];
        self.pipe -= segment.in_flight();
        segment.state = match segment.state {
            SegmentState::Lost => {
                self.waiting -= u64::from(segment.len);
                SegmentState::Retransmitted
            }
            SegmentState::Retransmitted => SegmentState::Retransmitted,
            SegmentState::InFlight | SegmentState::Duplicated => SegmentState::Duplicated,
            SegmentState::Sacked => unreachable!("a segment that has arrived is not retransmitted"),
        };
        segment.ambiguous = true;
        segment.at = now;
        self.pipe += segment.in_flight();
        if self.cursor == segment.start {
            self.cursor = segment.end();
        }
    }

    /// Cuts every segment beyond offset `from` with more than `mss` bytes of data, which is not known to have
    /// arrived, into pieces of at most `mss`, and marks them lost. Returns whether there was one. This is no sign of
    /// congestion, so [`take_losses`](Self::take_losses) does not return it.
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
            if segment.state != SegmentState::Lost {
                self.waiting += u64::from(segment.len);
            }
            self.cursor = self.cursor.min(segment.start);
            let mut start = segment.start;
            while start < segment.end() {
                let left = (segment.end() - start) as u32;
                let len = if left - u32::from(segment.fin) > mss { mss } else { left };
                let fin = segment.fin && len == left;
                let piece = Sent { start, len, fin, state: SegmentState::Lost, continues: false, ..segment };
                self.segments.push_back(piece);
                start += u64::from(len);
            }
        }
        true
    }

    /// Recomputes every counter from the segments and compares, for tests.
    #[cfg(test)]
    pub fn check(&self) {
        let pipe: u64 = self.segments.iter().map(Sent::in_flight).sum();
        assert_eq!(self.pipe, pipe, "pipe");
        let waiting: u64 = (self.segments.iter())
            .filter(|s| s.state == SegmentState::Lost)
            .inspect(|s| assert!(s.start >= self.cursor, "the cursor is beyond {s:?}"))
            .map(|s| u64::from(s.len))
            .sum();
        assert_eq!(self.waiting, waiting, "waiting");
    }
}

#[cfg(test)]
mod tests;
