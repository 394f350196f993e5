//! Received mappings from bytes of a subflow to data of the connection (RFC 8684 §3.3).
//!
//! A mapping may span several segments, and a segment several mappings. The bytes of a segment are sorted when the
//! segment arrives. Bytes that a mapping covers (a known mapping, or the one in the segment) get their place in the
//! connection's stream. The other bytes are dropped, and the subflow does not acknowledge them: the peer retransmits
//! them, with their mapping or after it. So every acknowledged byte has a place, and bytes are stored only in the
//! connection's stream. (Linux and others repeat the mapping on each segment that it spans.)
//!
//! With a checksum, data is passed on to the connection once its mapping is complete and the checksum is right. Until
//! then its bytes are *doubtful*. No other doubtful bytes may take their place, or a correct checksum would confirm
//! bytes that it does not cover.
//!
//! This reservation covers all data of the mapping, from its first byte on. It ends when another subflow delivers the
//! same data as the next bytes in its own order: that subflow takes the data over, and the remaining bytes of the
//! first mapping are dropped. If the first mapping is also the next to be complete on its subflow, the other subflow
//! takes over only after its segment has been refused `MAX_DISPUTED` times.
//!
//! Without this rule two subflows could deadlock, if each held a part of the data that the other has to deliver next.

use anabranch_multipath::buffer::RangeSet;
use anabranch_wire::checksum::Checksum;
use std::collections::VecDeque;

/// Maximum number of mappings, from the last one back, among which one is searched that covers a position.
const MAX_NESTED: usize = 8;

/// A range of subflow bytes, and the data of the connection in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Position in the subflow's byte stream.
    pub start: u64,
    pub len: u32,
    /// Offset in the connection's byte stream.
    pub data: u64,
}

impl Mapping {
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    pub fn covers(&self, at: u64) -> bool {
        self.start <= at && at < self.end()
    }

    /// Returns true if the mapping contains this offset of the data.
    pub fn holds(&self, data: u64) -> bool {
        self.data <= data && data < self.data + u64::from(self.len)
    }

    /// Subflow position of a data offset.
    pub fn position_of(&self, data: u64) -> u64 {
        self.start + (data - self.data)
    }

    /// Data offset of a subflow position.
    pub fn data_at(&self, at: u64) -> u64 {
        self.data + (at - self.start)
    }
}

/// Result of a mapping's checksum.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// The mapping has no checksum, or a correct one.
    Trusted,
    /// The checksum is wrong: a middlebox changed the data.
    Wrong,
    /// The mapping is incomplete: the expected checksum, the sum of the data that has arrived (with the
    /// pseudo-header), and the number of bytes in that sum.
    Partial { expected: u16, sum: Checksum, have: u32 },
    /// Another subflow has taken over the data of the incomplete mapping. Further bytes of the mapping are dropped.
    TakenOver,
}

/// A received mapping.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub mapping: Mapping,
    pub check: Check,
}

impl Received {
    pub fn is_trusted(&self) -> bool {
        matches!(self.check, Check::Trusted)
    }

    /// Returns true if some of the mapping's data has arrived and its checksum is not complete.
    pub fn has_begun(&self) -> bool {
        matches!(self.check, Check::Partial { have: 1.., .. })
    }

    /// Returns true if another subflow has taken over the data, so that bytes of this mapping are dropped.
    pub fn is_taken_over(&self) -> bool {
        matches!(self.check, Check::TakenOver)
    }

    /// Adds new bytes that start at position `at` and have the checksum `sum`. Once the mapping is complete, returns
    /// whether its checksum is right.
    pub fn add(&mut self, at: u64, (len, sum): (u32, Checksum)) -> Option<bool> {
        let Check::Partial { expected, sum: total, have } = &mut self.check else { return None };
        *total = total.with_part((at - self.mapping.start) % 2 == 1, sum);
        *have += len;
        if *have < self.mapping.len {
            return None;
        }
        let right = total.finish() == *expected;
        self.check = if right { Check::Trusted } else { Check::Wrong };
        Some(right)
    }
}

/// The mappings that a subflow has received and not used up, and the position up to which bytes were passed on.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    /// Ordered by position, at most one for each start. Nearly always a segment adds the last mapping and removes the
    /// first, and there is one at most.
    known: VecDeque<Received>,
    /// Subflow bytes that were passed on.
    pub taken: u64,
}

impl Mappings {
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Number of known mappings that begin before a position.
    fn before(&self, at: u64) -> usize {
        match self.known.back() {
            Some(last) if last.mapping.start >= at => {
                self.known.partition_point(|known| known.mapping.start < at)
            }
            _ => self.known.len(),
        }
    }

    /// The mapping that covers a position: a known one, otherwise `own` if it does. A later mapping may lie in the midst of
    /// an earlier one, if the peer has sent some of its bytes again with a mapping of their own.
    #[inline]
    pub fn at<'a>(&'a self, at: u64, own: Option<&'a Received>) -> Option<&'a Received> {
        let begun = self.before(at + 1);
        let mut last = self.known.range(begun.saturating_sub(MAX_NESTED)..begun).rev();
        last.find(|known| known.mapping.covers(at)).or(own.filter(|own| own.mapping.covers(at)))
    }

    /// Returns true if a mapping that begins at this position is known.
    pub fn knows(&self, start: u64) -> bool {
        self.beginning(start).is_some()
    }

    /// The known mapping that begins at a position.
    fn beginning(&self, start: u64) -> Option<&Received> {
        self.known.get(self.before(start)).filter(|known| known.mapping.start == start)
    }

    /// Adds new bytes from position `at` on to every incomplete mapping that covers some of them; `sum(from, to)`
    /// computes the checksum of a range of positions. Calls `each` with every mapping that becomes complete, and
    /// whether its checksum is right.
    pub fn add(
        &mut self,
        (at, end): (u64, u64),
        sum: impl Fn(u64, u64) -> Checksum,
        mut each: impl FnMut(Mapping, bool),
    ) {
        let begun = self.before(end);
        for known in self.known.iter_mut().take(begun) {
            let (from, to) = (at.max(known.mapping.start), end.min(known.mapping.end()));
            if from < to && !known.is_trusted() {
                let mapping = known.mapping;
                known
                    .add(from, ((to - from) as u32, sum(from, to)))
                    .into_iter()
                    .for_each(|right| each(mapping, right));
            }
        }
    }

    /// True if [`learn`](Self::learn) would store a mapping. The limit is the number of segments of reasonable size
    /// in a receive buffer; the data of a rejected mapping will be retransmitted.
    pub fn accepts(&self, received: &Received, receive_buffer: u64) -> bool {
        let Mapping { start, len, .. } = received.mapping;
        if let Some(known) = self.beginning(start) {
            if known.is_taken_over() {
                return false;
            }
            // A segment that contains a whole mapping with a correct checksum replaces incomplete mappings of
            // the same bytes.
            return received.is_trusted() && known.mapping.len <= len;
        }
        let most = (receive_buffer / 256).max(1024) as usize;
        received.mapping.end() > self.taken && self.known.len() < most
    }

    /// Discards the incomplete mappings that cover some of the data `[start, end)`, and calls `each` with the
    /// data of each. Mappings that have the same bytes at the same positions as `by` are kept, if `by`
    /// belongs to this subflow.
    pub fn take_over(
        &mut self,
        (start, end): (u64, u64),
        by: Option<Mapping>,
        mut each: impl FnMut((u64, u64)),
    ) {
        let same = |known: &Mapping| {
            by.is_some_and(|by| known.data.wrapping_sub(known.start) == by.data.wrapping_sub(by.start))
        };
        for known in self.known.iter_mut().filter(|known| known.has_begun() && !same(&known.mapping)) {
            let data = (known.mapping.data, known.mapping.data + u64::from(known.mapping.len));
            if data.0 < end && start < data.1 {
                known.check = Check::TakenOver;
                each(data);
            }
        }
    }

    /// Returns true if an incomplete mapping with some of the data `[start, end)` is the next to be complete on a
    /// subflow that has `received` bytes in order.
    pub fn completes_next(&self, (start, end): (u64, u64), received: u64) -> bool {
        let has = |mapping: &Mapping| mapping.data < end && start < mapping.data + u64::from(mapping.len);
        let next = |known: &&Received| known.mapping.start <= received && has(&known.mapping);
        self.known.iter().filter(next).any(Received::has_begun)
    }

    /// Returns true if some bytes of a mapping may have arrived under a mapping that was taken over, and been
    /// dropped.
    fn lacks_bytes(&self, mapping: &Mapping) -> bool {
        let overlaps =
            |known: &&Received| known.mapping.start < mapping.end() && mapping.start < known.mapping.end();
        self.known.iter().filter(overlaps).any(Received::is_taken_over)
    }

    /// Stores a mapping that is [accepted](Self::accepts); any other has no effect.
    pub fn learn(&mut self, received: Received, receive_buffer: u64) {
        if !self.accepts(&received, receive_buffer) {
            return;
        }
        let check = if self.lacks_bytes(&received.mapping) { Check::TakenOver } else { received.check };
        let received = Received { check, ..received };
        let place = self.before(received.mapping.start);
        match self.known.get_mut(place) {
            Some(known) if known.mapping.start == received.mapping.start => *known = received,
            Some(_) => self.known.insert(place, received),
            None => self.known.push_back(received),
        }
    }

    /// The next range of in-order data that may be passed on, with subflow positions below `available`; `None` if
    /// there is none.
    pub fn take(&mut self, available: u64) -> Option<(u64, u64)> {
        while self.taken < available {
            let &Received { mapping, check } = self.known.front()?;
            if mapping.end() <= self.taken {
                self.known.pop_front();
                continue;
            }
            if mapping.start > self.taken {
                self.taken = mapping.start.min(available);
                continue;
            }
            let end = mapping.end().min(available);
            if matches!(check, Check::TakenOver) {
                self.taken = end;
                continue;
            }
            if !matches!(check, Check::Trusted) {
                return None;
            }
            let data = mapping.data_at(self.taken);
            let len = end - self.taken;
            self.taken = end;
            if end == mapping.end() {
                self.known.pop_front();
            }
            return Some((data, data + len));
        }
        None
    }

    /// Removes all mappings; returns the data of those that are not complete.
    pub fn clear(&mut self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let known = core::mem::take(&mut self.known);
        known.into_iter().filter(|known| !known.is_trusted() && !known.is_taken_over()).map(|known| {
            let Mapping { data, len, .. } = known.mapping;
            (data, data + u64::from(len))
        })
    }
}

/// With checksums: data that has its place in the stream and was not passed on.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// Data with a correct checksum.
    right: RangeSet,
    /// Data of incomplete mappings, each with the whole range that the mapping covers.
    doubtful: RangeSet,
}

impl Placed {
    /// Returns true if no byte of `[start, end)` is doubtful.
    pub fn is_undisputed(&self, start: u64, end: u64) -> bool {
        self.doubtful.next_from(start).is_none_or(|(from, _)| from >= end)
    }

    /// Calls `each` with the parts of a range that may be stored: doubtful bytes never replace correct ones.
    pub fn each_place(&self, (start, end): (u64, u64), trusted: bool, mut each: impl FnMut(u64, u64)) {
        if trusted || self.right.is_empty() {
            each(start, end);
        } else {
            self.right.gaps(start, end).for_each(|(from, to)| each(from, to));
        }
    }

    /// Records that `[start, end)` was stored. If the mapping is doubtful, `[start, end)` is its whole range.
    pub fn place(&mut self, (start, end): (u64, u64), trusted: bool) {
        if trusted {
            self.right.insert(start, end);
        } else {
            self.doubtful.insert(start, end);
        }
    }

    /// Ends the reservation of `[start, end)`: its mapping is complete or was discarded.
    pub fn settle(&mut self, (start, end): (u64, u64), right: bool) {
        self.doubtful.remove(start, end);
        if right {
            self.right.insert(start, end);
        }
    }

    /// Removes `[start, end)`, which was passed on to the connection.
    pub fn passed(&mut self, start: u64, end: u64) {
        self.right.remove(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: u64 = 1 << 20;

    fn trusted(start: u64, len: u32) -> Received {
        Received { mapping: Mapping { start, len, data: 1000 + start }, check: Check::Trusted }
    }

    #[test]
    fn mapping_in_the_midst_of_another_hides_none_of_it() {
        let mut mappings = Mappings::default();
        mappings.learn(trusted(0, 60_000), BUFFER);
        mappings.learn(trusted(2800, 1400), BUFFER);
        let data = |at| mappings.at(at, None).map(|known| known.mapping.data_at(at));
        for at in [0, 2799, 2800, 4199, 4200, 59_999] {
            assert_eq!(data(at), Some(1000 + at), "{at}");
        }
        assert_eq!(data(60_000), None);
        // The bytes pass on once, in their order.
        assert_eq!(mappings.take(4200), Some((1000, 5200)));
        assert_eq!(mappings.take(4200), None);
        assert_eq!(mappings.take(60_000), Some((5200, 61_000)));
        assert_eq!(mappings.take(60_000), None);
        mappings.learn(trusted(60_000, 10), BUFFER);
        assert_eq!(mappings.take(60_010), Some((61_000, 61_010)));
        assert_eq!(mappings.count(), 0);
    }
}
