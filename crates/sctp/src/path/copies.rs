//! Transmissions in flight that the scoreboard counts for another path, or no longer counts.
//!
//! There are two kinds. With chunk rescheduling, a chunk was moved to another path while its first copy was in flight
//! on this one. With a scheduler that sends all data on every path, this path sent a copy of a chunk
//! ([`redundant`](crate::sender::redundant)).
//!
//! A moved copy stays in the path's queue and uses the path's window until it has left the queue. Otherwise a slow
//! path would repeatedly get a full window of chunks, and its timer would expire because of a queueing delay that was
//! never measured. A copy has left when the receiver reports the second arrival of the chunk as a duplicate, when a
//! chunk sent after it is acknowledged, or when a retransmission timeout has passed. The third case counts as a
//! timeout of the path if no acknowledgement for the path has arrived since. Without this rule a failed path would
//! never time out, because its chunks are moved before.

use anabranch_base::time::Time;
use std::collections::VecDeque;

/// A copy in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkCopy {
    pub tsn: u64,
    /// Number of the transmission.
    pub sent_as: u64,
    pub sent_at: Time,
    /// Payload bytes.
    pub len: u32,
    /// Bytes of the window that the copy uses.
    pub bytes: u32,
}

/// Copies in flight on a path, in the order of transmission.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    copies: VecDeque<ChunkCopy>,
    bytes: u64,
}

impl Copies {
    /// Bytes of the window that the copies use.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a copy. The copies of a path are added nearly in the order of transmission.
    pub fn push(&mut self, copy: ChunkCopy) {
        let at = self.copies.partition_point(|other| other.sent_as < copy.sent_as);
        self.copies.insert(at, copy);
        self.bytes += u64::from(copy.bytes);
    }

    /// Copy of the chunk with this TSN.
    pub fn find(&self, tsn: u64) -> Option<&ChunkCopy> {
        self.copies.iter().find(|copy| copy.tsn == tsn)
    }

    /// The oldest copy.
    pub fn first(&self) -> Option<&ChunkCopy> {
        self.copies.front()
    }

    /// Time of the last transmission that is not later than `until`.
    pub fn last_before(&self, until: Time) -> Option<Time> {
        self.copies.iter().map(|copy| copy.sent_at).take_while(|&sent_at| sent_at <= until).last()
    }

    /// Removes and returns the copy of this chunk, after its arrival or when it becomes the counted transmission.
    pub fn take(&mut self, tsn: u64) -> Option<ChunkCopy> {
        let at = self.copies.iter().position(|copy| copy.tsn == tsn)?;
        let copy = self.copies.remove(at)?;
        self.bytes -= u64::from(copy.bytes);
        Some(copy)
    }

    /// Removes the copies sent before transmission `sent_as`.
    pub fn overtaken(&mut self, sent_as: u64) {
        while self.copies.front().is_some_and(|copy| copy.sent_as < sent_as) {
            self.take_first();
        }
    }

    /// Removes the copies sent before the time `since`. Returns the time of the last one.
    pub fn expire(&mut self, since: Time) -> Option<Time> {
        let mut last = None;
        while let Some(copy) = self.copies.front().filter(|copy| copy.sent_at <= since) {
            last = Some(copy.sent_at);
            self.take_first();
        }
        last
    }

    /// Removes and returns the oldest copy.
    pub fn take_first(&mut self) -> Option<ChunkCopy> {
        let copy = self.copies.pop_front()?;
        self.bytes -= u64::from(copy.bytes);
        Some(copy)
    }

    /// Transmission time of the first copy, which counts as gone one retransmission timeout later.
    pub fn oldest(&self) -> Option<Time> {
        self.copies.front().map(|copy| copy.sent_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::time::Duration;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn copies_are_removed_by_duplicate_order_and_time() {
        let mut copies = Copies::default();
        for (tsn, ms) in [(7, 30), (5, 10), (6, 20), (8, 40)] {
            copies.push(ChunkCopy { tsn, sent_as: tsn * 10, sent_at: at(ms), len: 80, bytes: 100 });
        }
        assert_eq!((copies.bytes(), copies.oldest()), (400, Some(at(10))));
        let taken = |copy: Option<ChunkCopy>| copy.map(|copy| copy.sent_at);
        assert_eq!((taken(copies.take(6)), taken(copies.take(6))), (Some(at(20)), None));
        copies.overtaken(51);
        assert_eq!((copies.bytes(), taken(copies.take(5))), (200, None));
        assert_eq!((copies.expire(at(30)), copies.expire(at(30))), (Some(at(30)), None));
        assert_eq!((copies.bytes(), copies.oldest()), (100, Some(at(40))));
    }
}
