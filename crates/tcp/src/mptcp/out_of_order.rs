//! Out-of-order data at the receiver.

use super::connection::{Connection, ConnectionPhase};
use super::subflow::Subflow;
use anabranch_wire::tcp::Segment;
use anabranch_wire::{Body, Packet};
use core::net::SocketAddr;

impl Connection {
    /// Number of out-of-order ranges before the data of a packet: of its subflow, and of the connection.
    pub(super) fn ranges_before(&self, packet: &Packet) -> u64 {
        let Body::Tcp(segment) = &packet.body else { return 0 };
        let ends = (
            SocketAddr::new(packet.destination, segment.destination_port),
            SocketAddr::new(packet.source, segment.source_port),
        );
        let Some(index) = self.subflow_between(ends).filter(|_| segment.payload.len > 0) else { return 0 };
        let subflow = &self.subflows[index];
        let ahead = self.data_of(subflow, segment).map_or(0, |data| self.receive.ahead.count_below(data));
        subflow.block.ranges_before(segment.seq) + ahead as u64
    }

    /// Where the data of a segment, or of its mapping, begins in the connection's stream.
    fn data_of(&self, subflow: &Subflow, segment: &Segment) -> Option<u64> {
        if let Some(mapping) =
            segment.options.mptcp.dss.and_then(|dss| dss.mapping).filter(|found| found.len > 0)
        {
            let base = self.keys.remote?.idsn.wrapping_add(1);
            let data = self.position_of(mapping.dsn, base);
            return (data <= u64::MAX / 2).then_some(data);
        }
        let position = subflow.block.stream_position(segment.seq);
        Some(subflow.mappings.at(position, None)?.mapping.data_at(position))
    }

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
