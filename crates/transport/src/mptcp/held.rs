//! What waits at a receiver for gaps to close.

use super::connection::{Connection, ConnectionPhase};
use super::subflow::Subflow;
use multipath::buffer::RangeSet;

impl Connection {
    /// Bytes of the connection's stream that have arrived and wait: for data of the stream, for a segment of the subflow that
    /// brought them, or for the rest of a mapping whose checksum covers them. What came on two subflows counts once.
    pub(super) fn waiting(&self) -> u64 {
        let ahead = &self.receive.ahead;
        if self.phase == ConnectionPhase::Plain {
            return ahead.covered()
                + self.subflows.iter().map(|subflow| subflow.block.out_of_order()).sum::<u64>();
        }
        let mut holding = self.subflows.iter().filter(|subflow| !subflow.is_dead() && subflow.holds());
        let Some(first) = holding.next() else { return ahead.covered() };
        let Some(second) = holding.next() else {
            let mut fresh = 0;
            first.each_held(|start, end| {
                fresh += self.receive.missing(start, end).map(|(from, to)| to - from).sum::<u64>();
            });
            return ahead.covered() + fresh;
        };
        let mut all: RangeSet = ahead.clone();
        for subflow in [first, second].into_iter().chain(holding) {
            subflow.each_held(|start, end| {
                all.insert(start.max(self.receive.nxt), end);
            });
        }
        all.covered()
    }
}

impl Subflow {
    /// Whether it has received something that it has not passed on.
    fn holds(&self) -> bool {
        self.block.received() > self.mappings.taken || self.block.out_of_order() > 0
    }

    /// Calls `each` with the ranges of the connection's stream that it has received and not passed on.
    fn each_held(&self, mut each: impl FnMut(u64, u64)) {
        let doubtful = (self.mappings.taken, self.block.received());
        for (start, end) in core::iter::once(doubtful).chain(self.block.ahead()) {
            let mut at = start;
            while at < end {
                // What nothing maps (yet) has no place in the connection's stream.
                let Some(known) = self.mappings.at(at, None) else { break };
                let upto = known.mapping.end().min(end);
                let data = known.mapping.data_at(at);
                each(data, data + (upto - at));
                at = upto;
            }
        }
    }
}
