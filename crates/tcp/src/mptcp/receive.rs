//! Received data: which parts are kept, their place in the stream, and their delivery.

use super::connection::{Connection, ConnectionPhase, Role};
use super::data::DataFin;
use super::mapping::{Check, Mapping, Received};
use super::options::{capable, has_multipath};
use super::subflow::{Confirmation, Handshake};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{Place, Placement};
use anabranch_wire::checksum::Checksum;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{
    Capable, Control, DataChecksum, DataNumber, Dss, dss_checksum, dss_pseudo_header,
};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Content, Payload};

/// Limit of refusals of a subflow's next byte in order, while another subflow is about to complete the same data.
/// After that many the subflow takes the data over.
pub(super) const MAX_DISPUTED: u32 = 2;

/// A segment that the block of a subflow is about to accept, or has accepted.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub now: Time,
    /// Index of the subflow.
    pub index: usize,
    pub segment: &'a Segment,
    /// The mapping of the segment's payload.
    pub mapping: Option<Received>,
    pub content: &'a dyn Content,
}

impl Connection {
    /// The mapping of a segment for its payload, if the mapping is within the window. The checksum is verified at
    /// once if the segment contains all of the mapping's data.
    pub(super) fn mapping_of(
        &self,
        index: usize,
        segment: &Segment,
        content: &dyn Content,
    ) -> Option<Received> {
        let payload = segment.payload;
        if segment.flags.intersects(Flags::SYN) {
            return None;
        }
        let subflow = &self.subflows[index];
        let base = self.keys.remote?.idsn.wrapping_add(1);
        let (mapping, (number, wire_len), checksum) = match segment.options.mptcp.dss {
            Some(Dss { mapping: Some(found), data_fin, .. }) if found.len > 0 => {
                let near = subflow.mappings.taken + 1;
                let start = Serial(found.subflow_seq).unwrap_near(near).wrapping_sub(1);
                let data = self.position_of(found.dsn, base);
                let mapping = Mapping { start, len: u32::from(found.len) - u32::from(data_fin), data };
                (mapping, (found.subflow_seq, found.len), found.checksum)
            }
            _ => match capable(segment) {
                Some(Capable { data: Some(found), .. })
                    if self.role == Role::Server && matches!(subflow.handshake, Handshake::Capable(_)) =>
                {
                    let mapping = Mapping { start: 0, len: u32::from(found.len), data: 0 };
                    (mapping, (1, found.len), found.checksum)
                }
                _ => return None,
            },
        };
        let position = subflow.block.stream_position(segment.seq);
        // A position before the first byte has wrapped to a huge number.
        let wrapped = position > u64::MAX / 2 || mapping.start > u64::MAX / 2;
        let within = mapping.data <= self.receive.limit(self.config.tcp.receive_buffer);
        if wrapped || !within || mapping.len == 0 {
            return None;
        }
        // The mapping may belong to data of other segments: data that arrives later, or that was refused earlier.
        let end = position + u64::from(payload.len);
        if mapping.end() <= subflow.mappings.taken || (self.checksum && checksum.is_none()) {
            return None;
        }
        let dsn = base.wrapping_add(mapping.data);
        let whole = mapping.start >= position && mapping.end() <= end;
        let check = match checksum.filter(|_| self.checksum) {
            None => Check::Trusted,
            // The packet was passed as a value and never written as bytes, so no byte of it can have changed.
            Some(DataChecksum::Pending(_)) if whole && mapping.len == payload.len => Check::Trusted,
            Some(found) if whole => {
                let sum = content.sum(payload.part((mapping.start - position) as u32, mapping.len));
                let right = dss_checksum(dsn, number, wire_len, sum) == found.over(sum);
                if right { Check::Trusted } else { Check::Wrong }
            }
            Some(found) => {
                // The sum covers only data from the mapping's arrival on. If some arrived before, the checksum is not
                // complete.
                let (start, end) = (mapping.start, mapping.end());
                let fresh = subflow.block.missing(start, end).eq([(start, end)]);
                if !fresh && !subflow.mappings.knows(start) {
                    return None;
                }
                let sum = dss_pseudo_header(dsn, number, wire_len);
                Check::Partial { expected: found.over(sum), sum, have: 0 }
            }
        };
        Some(Received { mapping, check })
    }

    /// Number of payload bytes, from the first on, that can be placed and may be kept. Also whether the first refused
    /// byte lacks a mapping.
    pub(super) fn keepable(&self, index: usize, segment: &Segment, own: Option<&Received>) -> (u32, bool) {
        let subflow = &self.subflows[index];
        let len = segment.payload.len;
        if len == 0 || !matches!(self.phase, ConnectionPhase::Opening | ConnectionPhase::Multipath) {
            return (len, false);
        }
        if subflow.handshake == Handshake::Plain || self.falls_back(index, segment) {
            return (len, false);
        }
        let start = subflow.block.stream_position(segment.seq);
        if start > u64::MAX / 2 {
            return (len, false); // a position before the first byte, which the block refuses
        }
        let end = start + u64::from(len);
        let buffer = self.config.tcp.receive_buffer;
        let limit = self.receive.limit(buffer);
        let own = own.filter(|own| subflow.mappings.accepts(own, buffer));
        let mut at = start.max(subflow.block.received());
        let next = start <= subflow.block.received();
        while at < end {
            let Some(received) = subflow.mappings.at(at, own) else { break };
            let (upto, data) = (received.mapping.end().min(end), received.mapping.data_at(at));
            let room = limit.saturating_sub(data);
            if room < upto - at {
                return ((at + room - start) as u32, false);
            }
            // The subflow that first delivers a byte of a doubtful mapping reserves all of its data, until the
            // mapping is complete or another subflow takes the data over: see `mapping`.
            let Mapping { data, len: mapped, .. } = received.mapping;
            // Data that the connection has already received needs no reservation.
            let free = || {
                let mut lacking = self.receive.missing(data, data + u64::from(mapped));
                lacking.all(|(from, to)| self.placed.is_undisputed(from, to))
            };
            let mut missing = subflow.block.missing(at, upto);
            let settled = received.is_trusted() || received.has_begun() || received.is_taken_over();
            let takes_over =
                || next && (subflow.disputed >= MAX_DISPUTED || !self.completes_next(received.mapping));
            if !settled && missing.next().is_some() && !free() && !takes_over() {
                return ((at - start) as u32, false);
            }
            at = upto;
        }
        if at >= end { (len, false) } else { ((at - start) as u32, true) }
    }

    /// Returns true if a segment shows that the peer falls back to plain TCP. Then no payload needs a mapping.
    fn falls_back(&self, index: usize, segment: &Segment) -> bool {
        let options = &segment.options.mptcp;
        let infinite = options.dss.and_then(|dss| dss.mapping).is_some_and(|mapping| mapping.len == 0);
        let failed = options.others.iter().any(|option| matches!(option, Control::Fail { .. }));
        let begins = matches!(
            self.subflows[index].handshake,
            Handshake::Capable(Confirmation::Awaited | Confirmation::KeysSent)
        );
        infinite || failed || (begins && !has_multipath(segment))
    }

    /// Places the bytes of a segment that the subflow kept, and acts on the results of checksums.
    pub(super) fn place(&mut self, arrival: &Arrival<'_>) {
        let index = arrival.index;
        let plain = self.phase == ConnectionPhase::Plain;
        let mut wrong = None;
        if let Some(received) = arrival.mapping.filter(|_| !plain) {
            if matches!(received.check, Check::Wrong) {
                wrong = Some(received.mapping.data);
            }
            self.subflows[index].learn(received);
        }
        while let Some((payload, at)) = self.subflows[index].block.poll_kept() {
            if plain {
                self.placements.push_back(Placement { payload, place: Place::Stream { offset: at } });
            } else {
                wrong = self.place_part(arrival, payload, at).or(wrong);
            }
        }
        if let (Some(data), Some(remote)) = (wrong, self.keys.remote) {
            self.tally.checksum_failures += 1;
            self.on_wrong_checksum(index, remote.idsn.wrapping_add(1).wrapping_add(data));
        }
    }

    /// Places new bytes of a subflow, from position `at` on. Returns the data offset of a mapping whose checksum is
    /// wrong.
    fn place_part(&mut self, arrival: &Arrival<'_>, payload: Payload, at: u64) -> Option<u64> {
        let mut skip = 0;
        let mut wrong = None;
        while skip < payload.len {
            let from = at + u64::from(skip);
            // Bytes without a mapping are kept only on a subflow that was just closed.
            let Some(known) = self.subflows[arrival.index].mappings.at(from, None) else { break };
            let (mapping, trusted) = (known.mapping, known.is_trusted());
            let (begins, nowhere) = (!trusted && !known.has_begun(), known.is_taken_over());
            let len = (mapping.end() - from).min(u64::from(payload.len - skip)) as u32;
            let part = payload.part(skip, len);
            let data = mapping.data_at(from);
            let end = data + u64::from(len);
            if nowhere {
                skip += len;
                continue;
            }
            if begins {
                self.take_over(arrival.index, mapping);
            }
            for (from, to) in self.receive.missing(data, end) {
                let (placed, placements) = (&self.placed, &mut self.placements);
                placed.each_place((from, to), trusted, |from, to| {
                    let payload = part.part((from - data) as u32, (to - from) as u32);
                    placements.push_back(Placement { payload, place: Place::Stream { offset: from } });
                });
            }
            self.note_arrived(data, end);
            if self.checksum {
                let Mapping { data: first, len: mapped, .. } = mapping;
                let held = if trusted { (data, end) } else { (first, first + u64::from(mapped)) };
                self.placed.place(held, trusted);
            }
            skip += len;
        }
        if self.checksum {
            let sum = |from, to| arrival.content.sum(payload.part((from - at) as u32, (to - from) as u32));
            let placed = &mut self.placed;
            self.subflows[arrival.index].mappings.add((at, at + u64::from(skip)), sum, |mapping, right| {
                placed.settle((mapping.data, mapping.data + u64::from(mapping.len)), right);
                wrong = wrong.or((!right).then_some(mapping.data));
            });
        }
        wrong
    }

    /// Returns true if some subflow is about to complete the data of a mapping that the connection lacks.
    fn completes_next(&self, Mapping { data, len, .. }: Mapping) -> bool {
        self.receive.missing(data, data + u64::from(len)).any(|lacking| {
            self.subflows.iter().any(|s| s.mappings.completes_next(lacking, s.block.received()))
        })
    }

    /// Moves the reservation of data that the connection lacks from earlier mappings to a new one.
    fn take_over(&mut self, index: usize, mapping: Mapping) {
        let (start, end) = (mapping.data, mapping.data + u64::from(mapping.len));
        let disputed = |from, to| !self.placed.is_undisputed(from, to);
        let lacking: Vec<_> =
            self.receive.missing(start, end).filter(|&(from, to)| disputed(from, to)).collect();
        for lacking in lacking {
            for (other, subflow) in self.subflows.iter_mut().enumerate() {
                let by = (other == index).then_some(mapping);
                subflow.mappings.take_over(lacking, by, |data| self.placed.settle(data, false));
            }
        }
    }

    /// The position of a data sequence number in the peer's stream, whose first byte has the number `base`. A position
    /// before the first byte has wrapped to a huge number.
    #[inline]
    pub(super) const fn position_of(&self, dsn: DataNumber, base: u64) -> u64 {
        dsn.unwrap_near(base.wrapping_add(self.receive.nxt)).wrapping_sub(base)
    }

    pub(super) fn on_dss(&mut self, arrival: &Arrival<'_>, dss: &Dss) {
        let &Arrival { now, index, segment, .. } = arrival;
        if self.keys.remote.is_none() {
            return;
        }
        if let Some(number) = dss.data_ack {
            let base = self.keys.local.idsn.wrapping_add(1);
            let ack = number.unwrap_near(base.wrapping_add(self.send.una)).wrapping_sub(base);
            self.on_data_ack(now, (index, ack), segment);
        }
        let Some(mapping) = dss.mapping else { return };
        if mapping.len == 0 {
            self.fall_back(index, false); // an infinite mapping shows that the peer has fallen back
            return;
        }
        let long = matches!(mapping.dsn, DataNumber::Long(_));
        if long != self.receive.long && (long || self.receive.long_by_keys) {
            self.set_ack_length(long);
        }
        self.receive.long_by_keys = false;
        self.note_end(arrival, dss);
    }

    /// Processes data in an `MP_CAPABLE`. It begins with the initial data sequence number, which has 8 bytes (RFC 8684
    /// §3.1), so its `DATA_ACK` has 8 bytes, unless a later number has 4.
    pub(super) fn on_data_with_keys(&mut self) {
        if !self.receive.long {
            self.receive.long_by_keys = true;
            self.set_ack_length(true);
        }
    }

    /// Sends `DATA_ACK`s of 8 bytes (`long`) or 4 from now on.
    fn set_ack_length(&mut self, long: bool) {
        self.receive.long = long;
        for subflow in &mut self.subflows {
            subflow.make_room(&mut *self.congestion, long);
        }
    }

    /// Records the end of the peer's data, if its DSS contains a `DATA_FIN`.
    pub(super) fn note_end(&mut self, arrival: &Arrival<'_>, dss: &Dss) {
        let (Some(remote), Some(mapping)) = (self.keys.remote, dss.mapping) else { return };
        let base = remote.idsn.wrapping_add(1);
        let data = self.position_of(mapping.dsn, base);
        if dss.data_fin
            && data <= self.receive.limit(self.config.tcp.receive_buffer)
            && self.is_end_right(arrival, (base.wrapping_add(data), &mapping))
        {
            self.receive.ends_at(data + u64::from(mapping.len) - 1);
            self.subflows[arrival.index].block.ack_now();
        }
    }

    /// Returns true if the checksum that covers a `DATA_FIN` is right. If its mapping is incomplete, the peer will
    /// retransmit it.
    fn is_end_right(
        &self,
        arrival: &Arrival<'_>,
        (dsn, mapping): (u64, &anabranch_wire::tcp::mptcp::Mapping),
    ) -> bool {
        if !self.checksum {
            return true;
        }
        match mapping.checksum {
            Some(found) if mapping.len == 1 => {
                dss_checksum(dsn, mapping.subflow_seq, 1, Checksum::new()) == found.over(Checksum::new())
            }
            _ => arrival.mapping.is_some_and(|received| received.is_trusted()),
        }
    }

    fn on_data_ack(&mut self, now: Time, (index, ack): (usize, u64), segment: &Segment) {
        let (una, fin) = (self.send.una, self.send.fin);
        if !self.send.acknowledge(ack) {
            return;
        }
        self.unanswered_timeouts = 0;
        let window = self.subflows[index].block.scaled_window(segment);
        self.send.edge = self.send.edge.max(ack + window);
        if self.send.una > una || self.send.fin != fin {
            (self.data_backoff, self.futile) = (0, 0);
            self.continue_repair();
            let pending = self.send.una < self.send.highest() || self.send.fin == DataFin::Sent;
            self.data_timer = if pending { Some(now + self.data_timeout()) } else { None };
        }
    }

    /// Passes data that a subflow received in order on to the connection, as far as its checksums are right.
    pub(super) fn deliver(&mut self, index: usize) {
        let limit = self.receive.limit(self.config.tcp.receive_buffer);
        let finished = self.receive.finished();
        let available = self.subflows[index].block.received();
        let before = self.receive.nxt;
        while let Some((start, end)) = self.subflows[index].mappings.take(available) {
            self.subflows[index].new += self.receive.store(start, end, limit);
            let unmapped = &mut self.subflows[index].stripped.unmapped;
            *unmapped = unmapped.saturating_sub(1);
            self.subflows[index].disputed = 0;
            if self.checksum {
                self.placed.passed(start, end);
            }
        }
        if self.receive.nxt > before {
            self.futile = 0;
        }
        self.note_passed_on(before);
        if self.receive.finished() && !finished {
            self.subflows[index].block.ack_now();
        }
    }

    /// Delivers data of plain TCP, where the stream of the subflow is that of the connection.
    pub(super) fn deliver_plain(&mut self, index: usize) {
        let subflow = &mut self.subflows[index];
        let (from, to) = (self.receive.nxt, subflow.block.received());
        self.receive.nxt = to.max(from);
        subflow.new += self.receive.nxt - from;
        subflow.mappings.taken = self.receive.nxt;
        if subflow.block.peer_finished() {
            self.receive.fin = Some(self.receive.nxt);
        }
        let acked = subflow.block.acknowledged().min(self.send.written);
        subflow.prune(|_| {});
        self.send.una = self.send.una.max(acked);
    }
}

/// The segment with only the first `len` bytes of its payload, so that the rest counts as lost.
pub(super) fn cut(segment: &Segment, len: u32) -> Segment {
    let mut segment = segment.clone();
    segment.payload = segment.payload.part(0, len);
    segment.flags = Flags(segment.flags.0 & !(Flags::FIN | Flags::PSH).0);
    segment
}
