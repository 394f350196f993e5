//! Out-of-order data at the receiver.

use super::connection::{Connection, ConnectionPhase};
use super::subflow::Subflow;

impl Connection {
    /// Bytes of the connection's stream that have arrived and cannot be read yet: data is missing before them, a
    /// segment of their subflow is missing, or their mapping with a checksum is incomplete. Data that arrived on two
    /// subflows counts once.
    pub(super) fn waiting(&self) -> u64 {
        let ahead = &self.receive.ahead;
        if self.phase == ConnectionPhase::Plain {
            return ahead.covered()
                + self.subflows.iter().map(|subflow| subflow.block.out_of_order()).sum::<u64>();
        }
        self.waiting.as_ref().unwrap_or(ahead).covered()
    }

    /// Records that `[start, end)` of the stream has arrived on a subflow.
    pub(super) fn note_arrived(&mut self, start: u64, end: u64) {
        if let Some(waiting) = &mut self.waiting {
            waiting.insert(start.max(self.receive.nxt), end);
        }
    }

    /// Updates the waiting ranges after the subflows have passed on their data; before that, the stream was complete
    /// up to `before`.
    pub(super) fn note_passed_on(&mut self, before: u64) {
        // Usually no subflow holds data, so `receive.ahead` contains everything that waits.
        if !self.subflows.iter().any(Subflow::holds) {
            self.waiting = None;
        } else if let Some(waiting) = &mut self.waiting {
            waiting.remove(before, self.receive.nxt);
        } else {
            self.collect_waiting();
        }
    }

    /// Collects the waiting ranges again, because a subflow has begun to hold data, or has ended and dropped the data
    /// that it held.
    pub(super) fn collect_waiting(&mut self) {
        let mut holding = self.subflows.iter().filter(|subflow| subflow.holds()).peekable();
        self.waiting = holding.peek().is_some().then(|| self.receive.ahead.clone());
        let Some(all) = &mut self.waiting else { return };
        for subflow in holding {
            subflow.each_held(|start, end| {
                all.insert(start.max(self.receive.nxt), end);
            });
        }
    }
}

impl Subflow {
    /// Returns true if the subflow has received data that it has not passed on, and still may.
    fn holds(&self) -> bool {
        (self.block.received() > self.mappings.taken || self.block.out_of_order() > 0) && !self.is_dead()
    }

    /// Calls `each` with the ranges of the connection's stream that the subflow has received and not passed on.
    fn each_held(&self, mut each: impl FnMut(u64, u64)) {
        let doubtful = (self.mappings.taken, self.block.received());
        for (start, end) in core::iter::once(doubtful).chain(self.block.ahead()) {
            let mut at = start;
            while at < end {
                // Unmapped bytes have no place in the connection's stream yet.
                let Some(known) = self.mappings.at(at, None) else { break };
                let upto = known.mapping.end().min(end);
                let data = known.mapping.data_at(at);
                each(data, data + (upto - at));
                at = upto;
            }
        }
    }
}
