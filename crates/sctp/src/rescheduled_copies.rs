//! Chunks that were moved to another path while their first copy was in flight on this one (chunk rescheduling).
//!
//! Such a copy stays in the path's queue and uses the path's window until it has left the queue. Otherwise a slow path
//! would repeatedly get a full window of chunks, and its timer would expire because of a queueing delay that was never
//! measured. A copy has left when the receiver reports the second arrival of the chunk as a duplicate, when a chunk
//! sent after it is acknowledged, or when a retransmission timeout has passed. A path on which all chunks are lost
//! would never time out, because its chunks are moved before. Therefore the third case counts as a timeout if no
//! acknowledgement for the path has arrived since.

use anabranch_base::time::Time;
use std::collections::VecDeque;

/// A copy in flight.
#[derive(Clone, Copy, Debug)]
struct RescheduledCopy {
    tsn: u64,
    sent_as: u64,
    sent_at: Time,
    /// Bytes of the window that the copy uses.
    bytes: u64,
}

/// Copies in flight on a path, in the order of transmission.
#[derive(Debug, Default)]
pub(super) struct RescheduledCopies {
    copies: VecDeque<RescheduledCopy>,
    bytes: u64,
}

impl RescheduledCopies {
    /// Bytes of the window that the copies use.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a chunk that was sent on this path and is now moved. Chunks of one path are moved nearly in the order of
    /// transmission.
    pub fn push(&mut self, tsn: u64, (sent_as, sent_at): (u64, Time), bytes: u64) {
        let at = self.copies.partition_point(|copy| copy.sent_as < sent_as);
        self.copies.insert(at, RescheduledCopy { tsn, sent_as, sent_at, bytes });
        self.bytes += bytes;
    }

    /// The second copy of a chunk was received: removes the copy of this path and returns the time of its transmission.
    pub fn arrived(&mut self, tsn: u64) -> Option<Time> {
        let at = self.copies.iter().position(|copy| copy.tsn == tsn)?;
        let copy = self.copies.remove(at)?;
        self.bytes -= copy.bytes;
        Some(copy.sent_at)
    }

    /// Removes the copies sent before transmission `sent_as`.
    pub fn overtaken(&mut self, sent_as: u64) {
        while self.copies.front().is_some_and(|copy| copy.sent_as < sent_as) {
            self.drop_first();
        }
    }

    /// Removes the copies sent before the time `since`. Returns the time of the last of these transmissions.
    pub fn expire(&mut self, since: Time) -> Option<Time> {
        let mut last = None;
        while let Some(copy) = self.copies.front().filter(|copy| copy.sent_at <= since) {
            last = Some(copy.sent_at);
            self.drop_first();
        }
        last
    }

    fn drop_first(&mut self) {
        self.bytes -= self.copies.pop_front().map_or(0, |copy| copy.bytes);
    }

    /// Transmission time of the first copy, which has left at most one retransmission timeout later.
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
    fn copies_leave_by_duplicate_by_order_and_by_time() {
        let mut rescheduled_copies = RescheduledCopies::default();
        for (tsn, ms) in [(7, 30), (5, 10), (6, 20), (8, 40)] {
            rescheduled_copies.push(tsn, (tsn * 10, at(ms)), 100);
        }
        assert_eq!((rescheduled_copies.bytes(), rescheduled_copies.oldest()), (400, Some(at(10))));
        assert_eq!((rescheduled_copies.arrived(6), rescheduled_copies.arrived(6)), (Some(at(20)), None));
        rescheduled_copies.overtaken(51);
        assert_eq!((rescheduled_copies.bytes(), rescheduled_copies.arrived(5)), (200, None));
        assert_eq!(
            (rescheduled_copies.expire(at(30)), rescheduled_copies.expire(at(30))),
            (Some(at(30)), None)
        );
        assert_eq!((rescheduled_copies.bytes(), rescheduled_copies.oldest()), (100, Some(at(40))));
    }
}
