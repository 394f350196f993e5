//! Input: handshakes (RFC 8684 §3.1, §3.2), data sequence signals (§3.3), address and priority options.

use super::connection::{Connection, ConnectionPhase, Role};
use super::data::DataFin;
use super::keys::{Key, address_hmac, join_hmac, left64, left160};
use super::options::{capable, has_multipath, has_unusable_capable, join, offer};
use super::receive::{Arrival, cut};
use super::repair::AcceptedSegment;
use super::reset::{ResetReason, TRANSIENT_FLAG};
use super::subflow::{Confirmation, Handshake, Life, Resend, Subflow};
use crate::tcp::{Numbers, State, Tcb, Tuple};
use anabranch_base::time::Time;
use anabranch_endpoint::Obstacle;
use anabranch_endpoint::endpoint::{Event, Reason};
use anabranch_multipath::PathId;
use anabranch_multipath::path_manager::{AddressId, Pair};
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{Capable, Control, Join};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Content, Packet};
use core::net::SocketAddr;

impl Connection {
    pub(super) fn on_packet(&mut self, now: Time, packet: &Packet, content: &dyn Content) {
        let Body::Tcp(segment) = &packet.body else { return };
        let local = SocketAddr::new(packet.destination, segment.destination_port);
        let remote = SocketAddr::new(packet.source, segment.source_port);
        let index = match self.subflow_between((local, remote)) {
            Some(index) => index,
            None => match self.accept(now, (local, remote), segment) {
                Some(index) => index,
                None => return,
            },
        };
        if let Some(option) = &segment.ip_option {
            self.count_network_option(option);
        }
        if !self.admit(index, segment) {
            return;
        }
        let payload = segment.payload.len;
        let mapping = self.mapping_of(index, segment, content);
        let (keep, unmapped) = self.keepable(index, segment, mapping.as_ref());
        let whole = keep == payload;
        let shortened;
        let segment = if whole {
            segment
        } else {
            shortened = cut(segment, keep);
            &shortened
        };
        let block = &self.subflows[index].block;
        let (before, sacked_before) = (block.is_synchronised(), block.sacked_bytes());
        let believed = self.with_block(now, index, |block, context| {
            block.on_segment(context, (remote, packet.ecn), segment)
        });
        if segment.flags.contains(Flags::SYN) {
            let handshake = &mut self.subflows[index].handshake;
            if *handshake == Handshake::Capable(Confirmation::KeysSent) {
                *handshake = Handshake::Capable(Confirmation::Awaited);
            }
        }
        let established = !before && self.subflows[index].block.is_synchronised();
        if established && !self.on_established(now, index, segment) {
            return;
        }
        if believed && self.subflows[index].block.is_synchronised() {
            self.after(&Arrival { now, index, segment, mapping, content });
            if !whole {
                self.on_refused(index, segment.seq.add(keep), unmapped);
            }
            if !segment.flags.contains(Flags::SYN) {
                self.on_probe_answer(now, index, &AcceptedSegment { segment, sacked_before });
            }
        }
        if self.subflows[index].block.is_over() {
            if matches!(self.subflows[index].block.state(), State::Closed(Reason::Reset | Reason::Refused)) {
                self.on_control(now, index, segment); // an RST may contain the reason
            }
            self.on_subflow_over(now, index);
        }
    }

    /// The subflow that answers packets between these ends.
    #[inline]
    pub(super) fn subflow_between(&self, (local, remote): Tuple) -> Option<usize> {
        (self.subflows.iter())
            .position(|s| s.answers() && s.block.remote() == remote && s.block.local() == local)
    }

    /// Handles a segment of no known subflow: opens a subflow for a SYN, and answers any other segment with an RST.
    fn accept(&mut self, now: Time, (local, remote): Tuple, segment: &Segment) -> Option<usize> {
        let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        let position = self.locals.iter().position(|l| l.address.ip == local.ip());
        if opens
            && self.role == Role::Server
            && local.port() == self.port
            && let Some(at) = position
        {
            match join(segment) {
                None if self.phase == ConnectionPhase::Opening && self.subflows.is_empty() => {
                    let handshake = match offer(segment) {
                        Some(offered) => {
                            self.checksum |= offered.checksum_required;
                            Handshake::Capable(Confirmation::Awaited)
                        }
                        None => Handshake::Plain,
                    };
                    self.begin(now, (local, remote));
                    // The initial subflow's address has identifier 0 (RFC 8684 §3.4.1).
                    self.locals.swap(0, at);
                    return Some(self.listen(now, (local, remote), (0, Pair::default()), (handshake, false)));
                }
                Some(&Join::Syn { backup, address_id, token, nonce })
                    if self.phase == ConnectionPhase::Multipath
                        && token == self.keys.local.token
                        && self.has_room() =>
                {
                    let pair = Pair { local: AddressId(address_id), remote: AddressId(at as u8), port: 0 };
                    let nonces = (self.random.next_u32(), nonce);
                    let handshake = Handshake::Joined { nonces, confirmed: false };
                    let backup = backup || self.locals[at].address.backup;
                    return Some(self.listen(now, (local, remote), (at, pair), (handshake, backup)));
                }
                _ => {}
            }
        }
        self.reset_stranger((local, remote), segment);
        None
    }

    fn listen(
        &mut self,
        now: Time,
        ends: Tuple,
        (at, pair): (usize, Pair),
        (handshake, backup): (Handshake, bool),
    ) -> usize {
        let index =
            self.free_index(|s| s.is_dead() && s.pair.local == pair.local && s.pair.remote == pair.remote);
        let local = (ends.0, self.locals[at].address.mtu);
        let mut block = Tcb::server(self.config.tcp.clone(), local, PathId(index as u8));
        let mut numbers = Numbers::new(&self.secrets, now, ends);
        if self.phase == ConnectionPhase::Opening
            && let Some((number, _)) = self.cookie
        {
            numbers.sequence = number;
        }
        block.begin(numbers);
        self.install(now, index, Subflow::new(block, pair, handshake, backup));
        index
    }

    fn reset_stranger(&mut self, (local, remote): (SocketAddr, SocketAddr), segment: &Segment) {
        if segment.flags.contains(Flags::RST)
            || self.role == Role::Client && self.phase == ConnectionPhase::Opening
        {
            return;
        }
        let mut reset = Segment {
            source_port: local.port(),
            destination_port: remote.port(),
            flags: Flags::RST,
            ..Segment::default()
        };
        if segment.flags.contains(Flags::ACK) {
            reset.seq = segment.ack;
        } else {
            reset.flags |= Flags::ACK;
            reset.ack = segment.seq.add(segment.sequence_len());
        }
        if let Some(Join::Syn { token, .. }) = join(segment) {
            // RFC 8684 §3.2: a join with an unknown token gets an RST. If the connection has no room for another
            // subflow, the RST is transient.
            let known = *token == self.keys.local.token && self.phase == ConnectionPhase::Multipath;
            let reason = if known { ResetReason::Resources } else { ResetReason::Protocol };
            reset.options.mptcp.others.push(reason.option(known));
        } else if self.phase == ConnectionPhase::Multipath {
            // The RST ends this subflow only: it needs a reason, as otherwise the peer would take the connection for
            // closed.
            reset.options.mptcp.others.push(ResetReason::Unspecified.option(true));
        }
        self.resets.push_back(Packet {
            source: local.ip(),
            destination: remote.ip(),
            ecn: anabranch_wire::Ecn::NotEct,
            body: Body::Tcp(reset),
        });
    }

    /// Returns true if a listening subflow may process a segment: the third segment of its handshake must contain the
    /// keys (`MP_CAPABLE`) or the HMAC (`MP_JOIN`).
    fn admit(&mut self, index: usize, segment: &Segment) -> bool {
        let subflow = &mut self.subflows[index];
        if subflow.block.state() != State::SynReceived {
            return true;
        }
        if segment.flags.intersects(Flags::SYN | Flags::RST) {
            if segment.flags.contains(Flags::SYN) && offer(segment).is_none() {
                self.on_plain_syn(index);
            }
            return true;
        }
        match &mut subflow.handshake {
            Handshake::Capable(_) if self.role == Role::Server => {
                if let Some(&Capable { sender_key: Some(theirs), receiver_key: Some(ours), .. }) =
                    capable(segment)
                {
                    if ours == self.keys.local.secret {
                        self.keys.remote = Some(Key::new(theirs));
                    }
                    return ours == self.keys.local.secret;
                }
                // Data that overtook the third segment has to wait for that segment. A segment without any option
                // shows a middlebox, and an unusable MP_CAPABLE counts as none (RFC 8684 §3.1).
                if has_multipath(segment) && !has_unusable_capable(segment) {
                    return false;
                }
                subflow.handshake = Handshake::Plain;
                true
            }
            &mut Handshake::Joined { nonces, ref mut confirmed } => {
                let Some(remote) = self.keys.remote else { return false };
                let expected = left160(&join_hmac(&remote, &self.keys.local, (nonces.1, nonces.0)));
                match join(segment) {
                    Some(&Join::Ack { hmac }) if hmac == expected => {
                        *confirmed = true;
                        true
                    }
                    Some(_) => {
                        subflow.reset(ResetReason::Protocol);
                        subflow.life = Life::Dead;
                        false
                    }
                    None => false,
                }
            }
            _ => true,
        }
    }

    /// Completes a subflow's handshake; returns false if the subflow had to be closed.
    fn on_established(&mut self, now: Time, index: usize, segment: &Segment) -> bool {
        match self.subflows[index].handshake {
            Handshake::Plain => self.become_plain(false),
            Handshake::Capable(_) => {
                if self.role == Role::Client {
                    match capable(segment).and_then(|c| c.sender_key.map(|key| (key, c))) {
                        Some((key, offered)) => {
                            self.keys.remote = Some(Key::new(key));
                            self.checksum |= offered.checksum_required;
                            self.refuses_joins = offered.no_join_here;
                        }
                        None => self.become_plain(false),
                    }
                } else if self.keys.remote.is_some() {
                    self.subflows[index].handshake = Handshake::Capable(Confirmation::Confirmed);
                } else {
                    self.become_plain(false); // no keys: probably a simultaneous open
                }
                if self.phase == ConnectionPhase::Opening {
                    self.phase = ConnectionPhase::Multipath;
                    if self.closing {
                        self.send.fin = DataFin::Wanted;
                    }
                    let backup = self.subflows[index].backup;
                    self.subflows[index].priority = backup.then_some(Resend { at: now, times: 0 });
                    self.announce_addresses(now);
                }
            }
            Handshake::Joining { nonce, .. } => return self.on_join_answered(now, (index, nonce), segment),
            Handshake::Joined { .. } => {
                (self.has_one_subflow, self.shared) = (false, true);
                self.tally.joins += 1;
                self.subflows[index].block.ack_now();
                self.path_up(now, index);
            }
        }
        if index == 0 && !self.seen.connected {
            self.seen.connected = true;
            self.send.edge = self.subflows[0].block.peer_window();
            self.notify(Event::Connected);
            self.path_up(now, 0);
        }
        true
    }

    fn on_join_answered(&mut self, now: Time, (index, nonce): (usize, u32), segment: &Segment) -> bool {
        let local = self.keys.local;
        if let (Some(remote), Some(&Join::SynAck { backup, hmac, nonce: theirs, .. })) =
            (self.keys.remote, join(segment))
            && hmac == left64(&join_hmac(&remote, &local, (theirs, nonce)))
        {
            let proof = Some(left160(&join_hmac(&local, &remote, (nonce, theirs))));
            self.has_one_subflow = false;
            let subflow = &mut self.subflows[index];
            subflow.backup |= backup;
            let resend = Some(Resend { at: now + subflow.block.rtt().rto(), times: 0 });
            subflow.handshake = Handshake::Joining { nonce, proof, confirmed: false, resend };
            return true;
        }
        let is_stripped = join(segment).is_none();
        self.subflows[index].obstacle =
            Some(if is_stripped { Obstacle::Stripped } else { Obstacle::Refused });
        self.subflows[index].reset(ResetReason::Protocol);
        self.on_subflow_over(now, index);
        false
    }

    pub(super) fn path_up(&mut self, now: Time, index: usize) {
        self.linger_until = None;
        let subflow = &mut self.subflows[index];
        if subflow.life == Life::Opening {
            subflow.life = Life::Up { since: now };
            subflow.opened = true;
            self.resets.extend(subflow.predecessor.take());
            self.notify(Event::PathUp(PathId(index as u8)));
        }
        self.update_counted();
    }

    /// Processes a segment that the block of a subflow has accepted.
    fn after(&mut self, arrival: &Arrival<'_>) {
        let &Arrival { now, index, segment, .. } = arrival;
        if self.phase != ConnectionPhase::Plain && !segment.flags.contains(Flags::SYN) {
            self.confirm(now, index, segment);
            if self.phase == ConnectionPhase::Multipath {
                self.watch_options(index, segment);
            }
        }
        if self.phase == ConnectionPhase::Plain {
            self.note_plain(arrival);
            self.place(arrival);
            self.deliver_plain(index);
            self.update_counted_after_ack(index);
            return;
        }
        if !segment.options.mptcp.others.is_empty() {
            self.on_control(now, index, segment);
        }
        if let Some(dss) = segment.options.mptcp.dss {
            self.on_dss(arrival, &dss);
        }
        if !matches!(self.phase, ConnectionPhase::Closed(_)) {
            self.place(arrival);
        }
        match self.phase {
            ConnectionPhase::Plain => return self.deliver_plain(index),
            ConnectionPhase::Closed(_) => return,
            ConnectionPhase::Opening | ConnectionPhase::Multipath => self.deliver(index),
        }
        let (places, send, arrived_to) = (self.config.scheduler.places, &mut self.send, &mut self.arrived_to);
        self.subflows[index].prune(|mapping| {
            let end = mapping.data + u64::from(mapping.len);
            *arrived_to = end.max(*arrived_to);
            if places {
                send.note_arrived(mapping.data, end);
            }
        });
        self.update_counted_after_ack(index);
        let subflow = &self.subflows[index];
        let is_half_closed =
            subflow.block.peer_finished() && matches!(subflow.life, Life::Opening | Life::Up { .. });
        // A peer whose `DATA_FIN` is acknowledged may end its direction of each subflow, while this end still sends
        // (RFC 8684 §3.3.3).
        if is_half_closed && !self.receive.finished() {
            self.retire(index);
        }
    }

    /// Lets a subflow take part in congestion control again once it acknowledges data after a suspected failure, also
    /// after fallback. Without that the window of the subflow would never grow.
    fn update_counted_after_ack(&mut self, index: usize) {
        let subflow = &self.subflows[index];
        if !subflow.counted && subflow.may_count() {
            self.update_counted();
        }
    }

    /// Handles a segment of which the bytes from `seq` on were refused because they could not be placed.
    fn on_refused(&mut self, index: usize, seq: Serial, unmapped: bool) {
        let subflow = &mut self.subflows[index];
        subflow.block.ack_now();
        let next = subflow.block.stream_position(seq) == subflow.block.received();
        if !unmapped {
            subflow.disputed += u32::from(next);
        } else if self.phase == ConnectionPhase::Multipath {
            self.on_unmapped(index, next);
        }
    }

    /// Closes a subflow that the peer has closed, and reinjects its unacknowledged data on other subflows.
    fn retire(&mut self, index: usize) {
        self.reinject_all(index, Some(PathId(index as u8)));
        self.subflows[index].life = Life::Closing;
        self.subflows[index].block.close();
        self.update_counted();
    }

    /// Confirms a subflow's handshake: the first segment after it shows whether the peer received the third segment.
    fn confirm(&mut self, now: Time, index: usize, segment: &Segment) {
        match &mut self.subflows[index].handshake {
            Handshake::Capable(confirmation) if *confirmation != Confirmation::Confirmed => {
                if segment.options.mptcp.dss.is_some() {
                    *confirmation = Confirmation::Confirmed;
                    self.open_wanted(now);
                } else if !has_multipath(segment) && !segment.flags.contains(Flags::RST) {
                    self.become_plain(true);
                }
            }
            Handshake::Joining { confirmed, resend, .. } if !*confirmed => {
                if !has_multipath(segment) {
                    self.subflows[index].obstacle = Some(Obstacle::Stripped);
                    self.subflows[index].reset(ResetReason::Middlebox);
                    return;
                }
                *confirmed = true;
                *resend = None;
                self.shared = true;
                self.tally.joins += 1;
                self.path_up(now, index);
            }
            _ => {}
        }
    }

    fn on_control(&mut self, now: Time, index: usize, segment: &Segment) {
        for option in &segment.options.mptcp.others {
            match option {
                // A repeated third segment means that the fourth segment was lost: it is sent again (RFC 8684 §3.2).
                Control::Join(Join::Ack { .. }) => self.subflows[index].block.ack_now(),
                Control::Capable(Capable { data: Some(_), .. }) if self.role == Role::Server => {
                    self.on_data_with_keys();
                }
                Control::AddAddress(add) => self.on_add_address(now, add),
                Control::RemoveAddress(ids) => self.on_remove_address(now, ids),
                Control::Priority { backup } => {
                    let subflow = &mut self.subflows[index];
                    if subflow.backup != *backup {
                        // The last `MP_PRIO` of either end counts, so a pending one of this end is not repeated.
                        (subflow.backup, subflow.priority) = (*backup, None);
                    }
                    self.update_counted();
                }
                Control::FastClose { receiver_key } if *receiver_key == self.keys.local.secret => {
                    for subflow in self.subflows.iter_mut().filter(|s| !s.is_dead()) {
                        subflow.block.abort();
                    }
                    self.finish(Reason::Reset);
                }
                Control::Fail { .. } if !segment.flags.contains(Flags::RST) => self.on_fail(index),
                // The peer resets only this subflow, and continues on another.
                Control::Fail { .. } => self.subflows[index].transient = true,
                Control::Reset { flags, .. } if segment.flags.contains(Flags::RST) => {
                    self.subflows[index].transient = flags & TRANSIENT_FLAG != 0;
                }
                _ => {}
            }
        }
    }

    pub(super) fn is_genuine(&self, id: u8, at: SocketAddr, port: Option<u16>, hmac: u64) -> bool {
        self.keys
            .remote
            .is_some_and(|remote| address_hmac(&remote, &self.keys.local, (id, at.ip(), port)) == hmac)
    }
}
