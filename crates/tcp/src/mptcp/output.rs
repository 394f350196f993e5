//! Output: urgent segments, then data in the scheduler's order, then the rest; and the Multipath TCP options of all
//! segments.

use super::connection::{Connection, ConnectionPhase, WaitCause};
use super::data::{DataFin, Reinjection, SendSpace};
use super::mapping::Mapping;
use super::reset::ResetReason;
use super::subflow::{Confirmation, Handshake};
use crate::tcp::{State, Tcb, segment_of};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{DecisionReason, SchedulingDecision};
use anabranch_multipath::PathId;
use anabranch_multipath::scheduler::{self, Data, Decision, Offer, PathState, Piece};
use anabranch_wire::checksum::Checksum;
use anabranch_wire::tcp::mptcp::{
    self, Capable, CapableData, Control, DataChecksum, DataNumber, Dss, Join, dss_checksum,
};
use anabranch_wire::tcp::{Flags, SackBlocks, Segment};
use anabranch_wire::{Packet, Payload};

/// Number of SYNs with `MP_CAPABLE`. Further SYNs are plain TCP, in case a firewall drops the option (RFC 8684 §3.1).
const MAX_CAPABLE_SYNS: u32 = 2;
/// Option bytes of a TCP header: at most 40 (RFC 9293 §3.1).
const MAX_OPTION_BYTES: u32 = 40;

impl Connection {
    pub(super) fn poll(&mut self, now: Time) -> Option<Packet> {
        if let Some(packet) = self.resets.pop_front() {
            return Some(packet);
        }
        for index in 0..self.subflows.len() {
            if self.subflows[index].block.has_urgent()
                && let Some(output) = self.with_block(now, index, Tcb::poll_urgent)
            {
                self.outdated = None;
                return Some(self.add_options(now, index, output));
            }
        }
        match self.phase {
            ConnectionPhase::Plain => return self.poll_plain(now),
            ConnectionPhase::Multipath => {
                if let Some(packet) = self.send_data(now) {
                    return Some(packet);
                }
                self.want_control(now);
            }
            ConnectionPhase::Opening | ConnectionPhase::Closed(_) => {
                self.waiting_for = None;
            }
        }
        if let Some(index) = self.acknowledges_end.take()
            && let Some(output) = self.with_block(now, index, Tcb::poll_ack)
        {
            return Some(self.add_options(now, index, output));
        }
        let idle = self.send.all_assigned() && self.send.reinjections.is_empty();
        for index in 0..self.subflows.len() {
            if self.subflows[index].block.has_rest(idle)
                && let Some(output) =
                    self.with_block(now, index, |block, context| block.poll_rest(context, idle))
            {
                return Some(self.add_options(now, index, output));
            }
        }
        self.note_limits(now, idle);
        self.note_dry(now, idle);
        None
    }

    /// Records for rate samples that no more packets are sent now. A usable subflow without data (there is none, or
    /// the scheduler prefers to wait) is limited by its application; a closed receive window counts as a limit of the
    /// network.
    fn note_dry(&mut self, now: Time, idle: bool) {
        let (start, available) = self.send.unassigned();
        let window = self.send.edge.saturating_sub(start);
        for index in 0..self.subflows.len() {
            let subflow = &self.subflows[index];
            if subflow.block.has_rate()
                && subflow.is_usable()
                && (idle || window >= available.min(u64::from(subflow.block.mss())))
            {
                self.with_block(now, index, |block, context| {
                    if idle || block.could_send(context) {
                        block.set_application_limited(context);
                    }
                });
            }
        }
    }

    /// Sends the data of a plain TCP connection.
    fn poll_plain(&mut self, now: Time) -> Option<Packet> {
        let available = self.send.written.saturating_sub(self.subflows[0].block.sent());
        let output = self.with_block(now, 0, |block, context| {
            let len = block.next_len(context, available);
            if len > 0 {
                return Some(block.send(context, len, u64::from(len) == available));
            }
            block.poll_rest(context, available == 0)
        });
        if output.is_none() {
            self.note_limits_of_plain(now, available);
            if available == 0 {
                self.with_block(now, 0, |block, context| block.set_application_limited(context));
            }
        }
        output.map(|output| self.add_options(now, 0, output))
    }

    /// Makes some subflow send a segment for the pending options and the `DATA_FIN`.
    fn want_control(&mut self, now: Time) {
        self.signal_due_options(now);
        if let Some(subflow) = self.subflows.iter_mut().find(|s| s.is_priority_due(now)) {
            subflow.block.ack_now();
        }
        let fin = self.send.fin == DataFin::Wanted && self.send.all_assigned();
        if self.control.is_empty() && !fin {
            return;
        }
        let best = (self.subflows.iter().position(super::subflow::Subflow::is_usable))
            .or_else(|| self.subflows.iter().position(|s| s.is_alive() && s.is_confirmed()));
        if let Some(index) = best {
            self.subflows[index].block.ack_now();
        }
    }

    /// Sends one packet of data, if there is data and a path with free window.
    fn send_data(&mut self, now: Time) -> Option<Packet> {
        if self.config.scheduler.places {
            return self.send_placed(now);
        }
        let (start, available) = self.send.unassigned();
        let blocked = available == 0 && self.is_write_blocked();
        let held_up = blocked && self.may_retransmit_opportunistically();
        let full = blocked && !self.closing;
        let nothing = available == 0 && self.send.reinjections.is_empty() && !self.scheduler.duplicates();
        if nothing && !held_up && !full {
            self.waiting_for = None;
            return None;
        }
        self.snapshot_paths(now);
        if full {
            self.prepare_restarts();
        }
        if let Some(packet) = self.send_reinjection(now) {
            return Some(packet);
        }
        if self.scheduler.duplicates() {
            return self.send_copies(now);
        }
        if available == 0 {
            self.waiting_for = None;
            if held_up {
                self.notify_blocked();
                return self.retransmit_opportunistically(now);
            }
            return None;
        }
        let window = self.send.edge.saturating_sub(start);
        if self.waits_for_window((start, available)) {
            self.prepare_restarts();
            self.notify_blocked();
            self.wait(now, start, WaitCause::ReceiveWindow);
            if self.data_timer.is_none() {
                self.data_timer = Some(now + self.data_timeout());
            }
            return self.retransmit_opportunistically(now);
        }
        let send_window = self.send_window();
        let offer = Offer { now, bytes: available, window, send_window, repeated: false };
        let Decision::Send(path) = self.scheduler.select(&offer, &self.states) else {
            self.wait(now, start, WaitCause::CongestionWindow);
            // No path has free window, so no scheduler can send. (With reinjections the next range might find a
            // path.)
            let full = |state: &PathState| state.queueable == 0 && available >= state.mss.into();
            let settled = self.send.reinjections.is_empty() && self.states.iter().all(full);
            self.blocked_since = settled.then_some(now);
            return None;
        };
        let len = u64::from(self.segment_limit(now, path.index())).min(available).min(window);
        self.waiting_for = None;
        self.send.assign(start, start + len);
        Some(self.send_on(now, (path, DecisionReason::New), (start, len as u32)))
    }

    /// Sends one packet of data that the scheduler has placed itself, if there is any.
    fn send_placed(&mut self, now: Time) -> Option<Packet> {
        if self.send.una >= self.send.written && self.send.reinjections.is_empty() {
            self.waiting_for = None;
            return None;
        }
        self.snapshot_paths(now);
        if let Some(packet) = self.send_reinjection(now) {
            return Some(packet);
        }
        let SendSpace { una, written, edge, .. } = self.send;
        let (end, waiting) = (written.min(edge), una < self.send.highest());
        let more = edge < written && waiting;
        let data = Data { now, una, end, more, arrived: &self.send.arrived };
        let Some(piece) = self.scheduler.place(&data, &self.states) else {
            self.wait_for_place(now, more);
            return None;
        };
        let Piece { path, start, end, repeated } = piece;
        debug_assert!(una <= start && start < end && end <= edge.min(written), "beyond the window");
        self.waiting_for = None;
        self.send.assign(start, end);
        if repeated {
            self.subflows[path.index()].block.counters_mut().reinjections += 1;
        }
        let reason = if repeated { DecisionReason::Confluence } else { DecisionReason::New };
        Some(self.send_on(now, (path, reason), (start, (end - start) as u32)))
    }

    /// Returns true if the receive window does not admit the data from `start` on, or so little of it that a packet
    /// is not worthwhile while other data is in flight.
    fn waits_for_window(&self, (start, available): (u64, u64)) -> bool {
        let window = self.send.edge.saturating_sub(start);
        let waiting = self.send.una < self.send.highest();
        let fills_none = || self.states.iter().all(|state| window < state.mss.into());
        window == 0 || (window < available && waiting && fills_none())
    }

    /// Notifies the scheduler that the receive window or the send buffer is full, if a path has free congestion
    /// window that it cannot use.
    fn notify_blocked(&mut self) {
        if self.states.iter().any(|path| scheduler::eligible(path, &self.states)) {
            self.scheduler.on_blocked();
        }
    }

    /// Notes that the scheduler places no data now. `more`: see [`Data`].
    fn wait_for_place(&mut self, now: Time, more: bool) {
        let (start, available) = self.send.unassigned();
        let full = self.states.iter().all(|state| state.queueable == 0);
        // The application's further data would lie beyond the window, or find no path with free window.
        let enough = self.states.iter().all(|state| available >= state.mss.into());
        let settled = (more || full) && enough && self.send.reinjections.is_empty();
        self.blocked_since = (settled && self.scheduler.is_exhausted()).then_some(now);
        if available == 0 {
            self.waiting_for = None;
        } else if full || !self.waits_for_window((start, available)) {
            self.wait(now, start, WaitCause::CongestionWindow);
        } else {
            self.wait(now, start, WaitCause::ReceiveWindow);
            if self.data_timer.is_none() {
                self.data_timer = Some(now + self.data_timeout());
            }
        }
    }

    /// Limit of unacknowledged bytes.
    pub(super) fn send_window(&self) -> u64 {
        self.send.edge.saturating_sub(self.send.una).min(self.config.tcp.send_buffer)
    }

    /// Selects the path for `bytes` bytes; data that another path carried first avoids that path.
    pub(super) fn choose(&mut self, now: Time, bytes: u64, avoid: Option<PathId>) -> Option<PathId> {
        let mut taken = 0;
        if let Some(avoid) = avoid {
            taken = core::mem::take(&mut self.states[avoid.index()].queueable);
        }
        let send_window = self.send_window();
        let offer = Offer { now, bytes, window: bytes, send_window, repeated: true };
        let decision = self.scheduler.select(&offer, &self.states);
        if let Some(avoid) = avoid {
            self.states[avoid.index()].queueable = taken;
        }
        match decision {
            Decision::Send(path) => Some(path),
            Decision::Wait => None,
        }
    }

    fn send_reinjection(&mut self, now: Time) -> Option<Packet> {
        // Reinjections with different paths to avoid wait in one queue. The first range for each of up to four paths
        // is considered.
        for place in 0..self.send.reinjections.len().min(4) {
            let Reinjection { start, end, avoid } = self.send.reinjections[place];
            let Some(path) = self.choose(now, end - start, avoid) else { continue };
            let len = (end - start).min(u64::from(self.segment_limit(now, path.index())));
            self.send.reinjected(place, len);
            self.scheduler.on_reinjection(now, &self.states[path.index()], (start, start + len));
            self.subflows[path.index()].block.counters_mut().reinjections += 1;
            return Some(self.send_on(now, (path, DecisionReason::Reinjection), (start, len as u32)));
        }
        None
    }

    /// Sends all data on every path (redundant scheduler); each path has its own position in the data.
    fn send_copies(&mut self, now: Time) -> Option<Packet> {
        let (frontier, _) = self.send.unassigned();
        let end = self.send.written.min(self.send.edge);
        for index in 0..self.states.len() {
            let cursor = self.subflows[index].cursor.max(self.send.una);
            self.subflows[index].cursor = cursor;
            if cursor >= end {
                self.states[index].queueable = 0;
            }
        }
        let send_window = self.send_window();
        let bytes = end.saturating_sub(self.send.una);
        let offer = Offer { now, bytes, window: end, send_window, repeated: false };
        let Decision::Send(path) = self.scheduler.select(&offer, &self.states) else {
            let (start, available) = self.send.unassigned();
            let cause =
                if start >= self.send.edge { WaitCause::ReceiveWindow } else { WaitCause::CongestionWindow };
            if available > 0 {
                self.wait(now, start, cause);
            } else {
                self.waiting_for = None;
            }
            if available > 0 && self.data_timer.is_none() {
                self.data_timer = Some(now + self.data_timeout());
            }
            return None;
        };
        let limit = self.segment_limit(now, path.index());
        let subflow = &mut self.subflows[path.index()];
        let start = subflow.cursor;
        let reason = if start < frontier { DecisionReason::Copy } else { DecisionReason::New };
        let mut stop = end.min(start + u64::from(limit));
        if start < frontier {
            stop = stop.min(frontier);
            subflow.block.counters_mut().reinjections += 1;
        } else {
            self.send.assign(start, stop);
        }
        subflow.cursor = stop;
        self.waiting_for = None;
        Some(self.send_on(now, (path, reason), (start, (stop - start) as u32)))
    }

    /// Notes that data from `offset` on has to wait for this cause.
    fn wait(&mut self, now: Time, offset: u64, cause: WaitCause) {
        let before = self.waiting_for.replace(cause);
        if before != Some(cause)
            && let Some(decisions) = &mut self.decisions
        {
            let reason = match cause {
                WaitCause::CongestionWindow => DecisionReason::NoRoom,
                WaitCause::ReceiveWindow => DecisionReason::ReceiveWindow,
            };
            decisions.push_back(SchedulingDecision { at: now, path: None, offset, len: 0, reason });
        }
    }

    /// Sends data `[data, data + len)` on a path.
    pub(super) fn send_on(
        &mut self,
        now: Time,
        (path, reason): (PathId, DecisionReason),
        (data, len): (u64, u32),
    ) -> Packet {
        if let Some(decisions) = &mut self.decisions {
            decisions.push_back(SchedulingDecision { at: now, path: Some(path), offset: data, len, reason });
        }
        let index = path.index();
        if reason != DecisionReason::New {
            self.subflows[index].block.counters_mut().count_repeated(reason, u64::from(len));
        }
        let last = self.send.all_assigned();
        let mut packet = self.with_block(now, index, |block, context| block.send(context, len, last));
        self.add_request(now, (index, len), &mut packet);
        let start = segment_of(&mut packet).payload.offset;
        let window = self.congestion.window(path);
        let subflow = &mut self.subflows[index];
        subflow.carry(Mapping { start, len, data });
        // Copies and opportunistic retransmissions also change the states of other paths.
        let others_hold = !matches!(reason, DecisionReason::Copy | DecisionReason::Opportunistic);
        self.outdated = (others_hold && self.ample && !subflow.block.has_rate()).then_some((now, path));
        if let (Some(restart), Some(srtt)) = (&mut subflow.restart, subflow.block.rtt().srtt()) {
            restart.sent(now, len, (window, srtt));
        }
        if self.data_timer.is_none() {
            self.data_timer = Some(now + self.data_timeout());
        }
        self.add_options(now, index, packet)
    }

    /// Adds the Multipath TCP options of a subflow's segment, and the source route of its packet.
    pub(super) fn add_options(&mut self, now: Time, index: usize, mut packet: Packet) -> Packet {
        let segment = segment_of(&mut packet);
        if self.phase == ConnectionPhase::Plain || self.subflows[index].handshake == Handshake::Plain {
            self.add_plain_options(now, index, segment);
        } else if segment.flags.intersects(Flags::SYN) {
            self.add_syn_options(index, segment);
        } else if segment.flags.intersects(Flags::RST) {
            self.add_reset_options(index, segment);
        } else if self.subflows[index].block.state() != State::TimeWait {
            // In TIME-WAIT both ends have acknowledged all data, and a host keeps no more than a record of the subflow.
            self.add_data_options(now, index, segment);
        }
        if !self.config.source_routes.is_empty() {
            self.add_source_route(index, &mut packet);
        }
        packet
    }

    fn capable(&self, keys: (Option<u64>, Option<u64>), data: Option<CapableData>) -> Control {
        Control::Capable(Capable {
            version: 1,
            checksum_required: self.checksum,
            no_join_here: false,
            hmac_sha256: true,
            sender_key: keys.0,
            receiver_key: keys.1,
            data,
        })
    }

    /// Adds `MP_FASTCLOSE` to an RST that ends the connection, or the reason to one that ends only its subflow.
    fn add_reset_options(&self, index: usize, segment: &mut Segment) {
        let subflow = &self.subflows[index];
        let others = &mut segment.options.mptcp.others;
        if let Some(remote) = self.keys.remote.filter(|_| self.fast_closing) {
            others.push(Control::FastClose { receiver_key: remote.secret });
            return;
        }
        if let Some(dsn) = subflow.failed {
            others.push(Control::Fail { dsn });
        }
        let reason = subflow.reset_reason.unwrap_or(ResetReason::Unspecified);
        others
            .push(reason.option(self.phase == ConnectionPhase::Multipath && reason != ResetReason::Protocol));
    }

    fn add_syn_options(&mut self, index: usize, segment: &mut Segment) {
        let answer = segment.flags.contains(Flags::ACK);
        let subflow = &self.subflows[index];
        let backup = subflow.backup;
        let unanswered = subflow.block.attempts().max(self.opening.rounds());
        let option = match subflow.handshake {
            // A firewall may drop unknown options (RFC 8684 §3.1): the third SYN is one of plain TCP.
            Handshake::Capable(_) if !answer && unanswered >= MAX_CAPABLE_SYNS => return,
            Handshake::Capable(_) => self.capable((answer.then_some(self.keys.local.secret), None), None),
            Handshake::Joining { nonce, .. } => Control::Join(Join::Syn {
                backup,
                address_id: subflow.pair.local.0,
                token: self.keys.remote.map_or(0, |key| key.token),
                nonce,
            }),
            Handshake::Joined { nonces, .. } => {
                let Some(remote) = self.keys.remote else { return };
                let hmac = super::keys::join_hmac(&self.keys.local, &remote, nonces);
                Control::Join(Join::SynAck {
                    backup,
                    address_id: subflow.pair.remote.0,
                    hmac: super::keys::left64(&hmac),
                    nonce: nonces.0,
                })
            }
            Handshake::Plain => return,
        };
        segment.options.mptcp.others.push(option);
    }

    fn add_data_options(&mut self, now: Time, index: usize, segment: &mut Segment) {
        let Some(remote) = self.keys.remote else { return };
        segment.options.mptcp = core::mem::take(&mut self.spare_options);
        if segment.options.mptcp.get().is_some() {
            *segment.options.mptcp = mptcp::Options::default();
        }
        let subflow = &self.subflows[index];
        let position = segment.payload.offset;
        let data = if segment.payload.is_empty() { None } else { subflow.data_of(position) };
        if let Some(data) = data {
            segment.payload = Payload::new(data, segment.payload.len);
        }
        match subflow.handshake {
            Handshake::Joining { proof: Some(hmac), confirmed: false, .. } => {
                segment.options.sack = SackBlocks::default();
                segment.options.mptcp.others.push(Control::Join(Join::Ack { hmac }));
                return;
            }
            // The first segments contain the key until the peer shows that it has received it (RFC 8684 §3.1).
            Handshake::Capable(Confirmation::Awaited | Confirmation::KeysSent)
                if self.repeats_keys(now, index, data) =>
            {
                self.subflows[index].handshake = Handshake::Capable(Confirmation::KeysSent);
                segment.options.sack = SackBlocks::default();
                let first = data.map(|_| CapableData {
                    len: segment.payload.len as u16,
                    checksum: self.checksum.then(|| self.checksum_of(1, segment.payload)),
                });
                let keys = (Some(self.keys.local.secret), Some(remote.secret));
                segment.options.mptcp.others.push(self.capable(keys, first));
                return;
            }
            _ => {}
        }
        let ack = remote.idsn.wrapping_add(1).wrapping_add(self.receive.ack());
        // The `DATA_ACK` is as long as the peer's data sequence numbers (RFC 8684 §3.3.2), unless a retransmitted
        // segment leaves no room.
        let roomy = segment.payload.len <= subflow.block.mss();
        let ack =
            if self.receive.long && roomy { DataNumber::Long(ack) } else { DataNumber::Short(ack as u32) };
        let mut dss = Dss { data_ack: Some(ack), ..Dss::default() };
        self.receive.edge =
            self.receive.edge.max(self.receive.nxt + self.subflows[index].block.scaled(segment.window));
        if let Some(data) = data {
            let subflow_seq = (position as u32).wrapping_add(1);
            dss.mapping = Some(mptcp::Mapping {
                dsn: DataNumber::Long(self.dsn(data)),
                subflow_seq,
                len: segment.payload.len as u16,
                checksum: self.checksum.then(|| self.checksum_of(subflow_seq, segment.payload)),
            });
        } else if segment.payload.is_empty() {
            self.add_bare_options(now, index, (segment, &mut dss));
        }
        segment.options.mptcp.dss = Some(dss);
        if segment.options.wire_len() > MAX_OPTION_BYTES {
            segment.options.sack = SackBlocks::default();
            if segment.options.wire_len() > MAX_OPTION_BYTES {
                segment.options.mptcp.dss = None; // a long ADD_ADDR leaves no room for a DSS
            }
        }
    }

    /// Returns true if a segment has to repeat the keys: the first data and bare segments do until the peer has shown
    /// that it knows them. A pending signal waits for one such segment at most.
    fn repeats_keys(&self, now: Time, index: usize, data: Option<u64>) -> bool {
        let fin = self.send.fin == DataFin::Wanted && self.send.all_assigned();
        let subflow = &self.subflows[index];
        let told = subflow.handshake == Handshake::Capable(Confirmation::KeysSent);
        let urgent = told && (fin || subflow.is_priority_due(now) || !self.control.is_empty());
        data.map_or(!urgent, |data| data == 0)
    }

    /// Adds the `DATA_FIN` or one of the pending options to a segment without data.
    fn add_bare_options(&mut self, now: Time, index: usize, (segment, dss): (&mut Segment, &mut Dss)) {
        if self.subflows[index].is_priority_due(now) {
            self.subflows[index].note_priority_sent(now);
            let backup = self.subflows[index].backup;
            segment.options.sack = SackBlocks::default();
            segment.options.mptcp.others.push(Control::Priority { backup });
        } else if self.send.fin == DataFin::Wanted && self.send.all_assigned() {
            self.send.fin = DataFin::Sent;
            self.data_timer = Some(now + self.data_timeout());
            segment.options.sack = SackBlocks::default();
            dss.data_fin = true;
            // RFC 8684 §3.3.3: the mapping of a `DATA_FIN` without data has subflow sequence number 0 and length 1.
            let dsn = self.dsn(self.send.written);
            let checksum =
                self.checksum.then(|| DataChecksum::Known(dss_checksum(dsn, 0, 1, Checksum::new())));
            dss.mapping =
                Some(mptcp::Mapping { dsn: DataNumber::Long(dsn), subflow_seq: 0, len: 1, checksum });
        } else if let Some(option) = self.control.pop_front() {
            segment.options.sack = SackBlocks::default();
            segment.options.mptcp.others.push(option);
        }
    }

    pub(super) fn dsn(&self, data: u64) -> u64 {
        self.keys.local.idsn.wrapping_add(1).wrapping_add(data)
    }

    /// The checksum stays open until the packet is written, because only its writer knows the bytes.
    fn checksum_of(&self, subflow_seq: u32, payload: Payload) -> DataChecksum {
        DataChecksum::pending(self.dsn(payload.offset), subflow_seq, payload.len as u16)
    }
}
