//! The connection-level byte stream: sent data (written, assigned to subflows, acknowledged) and received data.
//!
//! Offsets count from the first data byte. Subflows may get data in any order: `frontier` is the end of the
//! contiguous assigned part, and `assigned` contains the assigned ranges beyond it.

use anabranch_multipath::PathId;
use anabranch_multipath::buffer::RangeSet;
use std::collections::VecDeque;

/// A range of data to send again, preferably on another path than the one that carried it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reinjection {
    pub start: u64,
    pub end: u64,
    pub avoid: Option<PathId>,
}

/// Progress of this side's `DATA_FIN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DataFin {
    #[default]
    NotYet,
    /// The application has closed; data may still wait before the `DATA_FIN`.
    Wanted,
    /// The `DATA_FIN` is in flight.
    Sent,
    Acknowledged,
}

#[derive(Debug, Default)]
pub(super) struct SendSpace {
    /// Bytes the application wrote.
    pub written: u64,
    /// Lowest offset that no `DATA_ACK` covers.
    pub una: u64,
    /// End of the contiguous data that subflows have been given.
    frontier: u64,
    /// Ranges beyond the frontier that subflows have been given.
    assigned: RangeSet,
    /// For a scheduler that places data itself: ranges beyond `una` that subflows have delivered.
    pub arrived: RangeSet,
    /// Right edge of the peer's receive window.
    pub edge: u64,
    pub reinjections: VecDeque<Reinjection>,
    pub fin: DataFin,
}

impl SendSpace {
    /// The lowest unassigned range: its start, and the number of written bytes in it.
    #[inline]
    pub fn unassigned(&self) -> (u64, u64) {
        let end = self.assigned.first().map_or(self.written, |(start, _)| start);
        (self.frontier, end.saturating_sub(self.frontier))
    }

    /// Returns true if subflows have been given all written data.
    pub fn all_assigned(&self) -> bool {
        self.frontier >= self.written
    }

    /// Offset after the highest assigned byte.
    #[inline]
    pub fn highest(&self) -> u64 {
        self.assigned.last().map_or(self.frontier, |(_, end)| end)
    }

    /// Records that a subflow was given `[start, end)`, possibly again in part.
    pub fn assign(&mut self, start: u64, end: u64) {
        let start = start.max(self.frontier);
        if start >= end {
            return;
        }
        if start != self.frontier {
            self.assigned.insert(start, end);
            return;
        }
        self.frontier = end;
        while let Some((start, end)) = self.assigned.first()
            && start <= self.frontier
        {
            self.assigned.remove(start, end);
            self.frontier = self.frontier.max(end);
        }
    }

    /// Processes a `DATA_ACK` up to `ack`; returns false if it acknowledges unsent data.
    pub fn acknowledge(&mut self, ack: u64) -> bool {
        let fin = matches!(self.fin, DataFin::Sent | DataFin::Acknowledged);
        if ack > self.highest() + u64::from(fin) {
            return false;
        }
        if fin && ack > self.written {
            self.fin = DataFin::Acknowledged;
        }
        self.advance(ack.min(self.written));
        while let Some(front) = self.reinjections.front_mut() {
            if front.end > self.una {
                front.start = front.start.max(self.una);
                break;
            }
            self.reinjections.pop_front();
        }
        true
    }

    /// Moves the acknowledged edge to `una`. Data below may have been sent without being assigned, as a reinjection
    /// before a gap; it counts as assigned from then on.
    fn advance(&mut self, una: u64) {
        if una <= self.una {
            return;
        }
        if !self.arrived.is_empty() {
            self.arrived.remove(self.una, una);
        }
        self.una = una;
        if una > self.frontier {
            self.assign(self.frontier, una);
        }
    }

    /// Records that a subflow has delivered `[start, end)`.
    pub fn note_arrived(&mut self, start: u64, end: u64) {
        self.arrived.insert(start.max(self.una), end);
    }

    /// Queues `[start, end)` for reinjection, except parts that are acknowledged or already queued. The queue is
    /// ordered by offset, so that the data that blocks the peer goes first.
    pub fn reinject(&mut self, start: u64, end: u64, avoid: Option<PathId>) {
        let start = start.max(self.una);
        if start >= end {
            return;
        }
        if self.reinjections.iter().any(|r| r.start <= start && end <= r.end) {
            return;
        }
        let at = self.reinjections.partition_point(|r| r.start <= start);
        match at.checked_sub(1).map(|before| &mut self.reinjections[before]) {
            Some(before) if before.avoid == avoid && before.end >= start => before.end = end,
            _ => self.reinjections.insert(at, Reinjection { start, end, avoid }),
        }
    }

    /// Permits `path` for queued data that had to avoid it, because a new subflow has taken its place. With `None`,
    /// all queued data may use every path.
    pub fn clear_avoidance(&mut self, path: Option<PathId>) {
        let cleared = |r: &&mut Reinjection| path.is_none() || r.avoid == path;
        self.reinjections.iter_mut().filter(cleared).for_each(|r| r.avoid = None);
    }

    /// Records that the first `len` bytes of the reinjection at index `place` were sent.
    pub fn reinjected(&mut self, place: usize, len: u64) {
        let range = &mut self.reinjections[place];
        range.start += len;
        if range.start == range.end {
            self.reinjections.remove(place);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ReceiveSpace {
    /// Bytes received in order.
    pub nxt: u64,
    /// Bytes the application read.
    pub read: u64,
    pub ahead: RangeSet,
    /// Offset of the peer's `DATA_FIN`.
    pub fin: Option<u64>,
    /// Right edge of the last advertised window.
    pub edge: u64,
    /// True if the peer's data sequence numbers have 8 bytes.
    pub long: bool,
    /// True if only data in an `MP_CAPABLE` has shown that.
    pub long_by_keys: bool,
}

impl ReceiveSpace {
    /// Stores data `[start, end)` that arrived on a subflow, in the subflow's order. Data beyond `limit` is dropped.
    /// Returns the number of new bytes.
    pub fn store(&mut self, start: u64, end: u64, limit: u64) -> u64 {
        let (start, end) = (start.max(self.nxt), end.min(limit));
        if start >= end {
            return 0;
        }
        if start > self.nxt {
            return self.ahead.insert(start, end);
        }
        let (reached, new) = self.ahead.absorb(self.nxt, end);
        self.nxt = reached;
        new
    }

    /// The parts of `[start, end)` that have not been stored, ascending.
    pub fn missing(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ahead.gaps(start.max(self.nxt), end)
    }

    /// Right edge of acceptable data: the end of the window, or of the stream.
    pub fn limit(&self, buffer: u64) -> u64 {
        let edge = self.edge.max(self.read + buffer);
        self.fin.map_or(edge, |fin| fin.min(edge))
    }

    /// Processes a `DATA_FIN` at offset `at`. The first `DATA_FIN` counts, unless data beyond it has already arrived.
    pub fn ends_at(&mut self, at: u64) {
        if self.fin.is_none() && at >= self.nxt && self.ahead.last().is_none_or(|(_, end)| end <= at) {
            self.fin = Some(at);
        }
    }

    /// Returns true once all data and the `DATA_FIN` have arrived.
    pub fn finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.nxt >= fin)
    }

    /// Offset to acknowledge, including one for the `DATA_FIN` (RFC 8684 §3.3.3).
    pub fn ack(&self) -> u64 {
        self.nxt + u64::from(self.finished())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_may_be_handed_out_in_any_order() {
        let mut space = SendSpace { written: 1000, edge: 1000, ..SendSpace::default() };
        space.assign(900, 1000);
        space.assign(0, 100);
        assert_eq!(space.unassigned(), (100, 800));
        space.assign(800, 900);
        space.assign(100, 800);
        assert!(space.all_assigned());
        // The assignment of a range that is assigned already changes nothing.
        space.assign(200, 300);
        assert_eq!((space.unassigned(), space.highest()), ((1000, 0), 1000));
        assert!(!space.acknowledge(1001));
    }

    #[test]
    fn acknowledged_data_counts_as_assigned() {
        let mut space = SendSpace { written: 1000, edge: 1000, ..SendSpace::default() };
        space.assign(500, 1000);
        space.note_arrived(500, 700);
        assert!(space.acknowledge(600));
        assert_eq!((space.unassigned(), space.arrived.first()), ((1000, 0), Some((600, 700))));
        assert!(space.acknowledge(1000));
        assert!(space.arrived.is_empty());
    }

    #[test]
    fn acknowledged_data_is_not_sent_again() {
        let mut space = SendSpace { written: 1000, ..SendSpace::default() };
        space.assign(0, 1000);
        space.reinject(0, 300, Some(PathId(1)));
        space.reinject(300, 500, Some(PathId(1)));
        assert_eq!(space.reinjections.len(), 1);
        assert!(space.acknowledge(400));
        assert_eq!(ranges(&space), [(400, 500)]);
        assert!(space.acknowledge(1000));
        assert_eq!(ranges(&space), []);
    }

    fn ranges(space: &SendSpace) -> Vec<(u64, u64)> {
        space.reinjections.iter().map(|r| (r.start, r.end)).collect()
    }

    #[test]
    fn data_the_peer_waits_for_is_reinjected_first() {
        let mut space = SendSpace { written: 1000, ..SendSpace::default() };
        space.assign(0, 1000);
        for (start, end, avoid) in
            [(600, 700, 0), (0, 100, 1), (300, 400, 0), (650, 680, 0), (350, 450, 0), (100, 200, 0)]
        {
            space.reinject(start, end, Some(PathId(avoid)));
        }
        assert_eq!(ranges(&space), [(0, 100), (100, 200), (300, 450), (600, 700)]);
        space.reinjected(1, 40);
        space.reinjected(0, 100);
        assert_eq!(ranges(&space), [(140, 200), (300, 450), (600, 700)]);
        assert!(space.acknowledge(320));
        assert_eq!(ranges(&space), [(320, 450), (600, 700)]);
    }

    #[test]
    fn data_fin_is_acknowledged_by_one_more_number() {
        let mut space = SendSpace { written: 10, ..SendSpace::default() };
        space.assign(0, 10);
        assert!(!space.acknowledge(11));
        space.fin = DataFin::Sent;
        assert!(space.acknowledge(11));
        assert_eq!((space.una, space.fin), (10, DataFin::Acknowledged));
    }

    #[test]
    fn arrival_in_any_order_is_counted_once() {
        let mut space = ReceiveSpace::default();
        assert_eq!(space.store(100, 200, 1000), 100);
        assert_eq!(space.store(0, 150, 1000), 100);
        assert_eq!((space.nxt, space.store(0, 200, 1000)), (200, 0));
        assert_eq!(space.store(900, 1100, 1000), 100);
        space.fin = Some(200);
        assert_eq!((space.finished(), space.ack()), (true, 201));
    }
}
