//! What arrives: handshakes (RFC 8684 §3.1, §3.2), data sequence signals (§3.3), address and priority options.

use super::connection::{Connection, Phase, Role};
use super::data::DataFin;
use super::keys::{Key, address_hmac, join_hmac, left64, left160};
use super::subflow::{Handshake, Mapping, Subflow};
use crate::endpoint::{Event, Reason};
use crate::tcp::{Numbers, State, Tcb, Tuple};
use core::net::SocketAddr;
use multipath::PathId;
use multipath::path_manager::{AddressId, Pair};
use multipath::time::Time;
use wire::seq::Serial;
use wire::tcp::mptcp::{Capable, Control, DataNumber, Dss, Join, dss_checksum};
use wire::tcp::{Flags, Segment};
use wire::{Body, Packet, checksum::Checksum};

fn capable(segment: &Segment) -> Option<&Capable> {
    segment.options.mptcp.others.iter().find_map(|option| match option {
        Control::Capable(capable) if capable.version == 1 && capable.hmac_sha256 => Some(capable),
        _ => None,
    })
}

fn join(segment: &Segment) -> Option<&Join> {
    segment.options.mptcp.others.iter().find_map(|option| match option {
        Control::Join(join) => Some(join),
        _ => None,
    })
}

fn has_multipath(segment: &Segment) -> bool {
    segment.options.mptcp.dss.is_some() || !segment.options.mptcp.others.is_empty()
}

impl Connection {
    pub(super) fn on_packet(&mut self, now: Time, packet: &Packet) {
        let Body::Tcp(segment) = &packet.body else { return };
        let local = SocketAddr::new(packet.destination, segment.destination_port);
        let remote = SocketAddr::new(packet.source, segment.source_port);
        let found = (self.subflows.iter())
            .position(|s| s.answers() && s.block.remote() == remote && s.block.local() == local);
        let index = match found {
            Some(index) => index,
            None => match self.accept(now, (local, remote), segment) {
                Some(index) => index,
                None => return,
            },
        };
        if !self.admit(index, segment) {
            return;
        }
        let before = self.subflows[index].block.is_synchronised();
        let believed = self.with_block(now, index, |block, context| {
            block.on_segment(context, (remote, packet.ecn), segment)
        });
        if segment.flags.contains(Flags::SYN) {
            self.subflows[index].told = false;
        }
        let established = !before && self.subflows[index].block.is_synchronised();
        if established && !self.on_established(now, index, segment) {
            return;
        }
        if believed && self.subflows[index].block.is_synchronised() {
            self.after(now, index, segment);
        }
        if self.subflows[index].block.is_over() {
            if self.subflows[index].block.state() == State::Closed(Reason::Reset) {
                self.on_control(now, index, segment); // an RST may carry MP_FASTCLOSE
            }
            self.on_subflow_over(now, index);
        }
    }

    /// A segment of no known subflow: a new one on a listening host, or a stranger to be reset.
    fn accept(&mut self, now: Time, (local, remote): Tuple, segment: &Segment) -> Option<usize> {
        let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        let position = self.locals.iter().position(|l| l.address.ip == local.ip());
        if opens
            && self.role == Role::Server
            && local.port() == self.port
            && let Some(at) = position
        {
            match join(segment) {
                None if self.phase == Phase::Opening && self.subflows.is_empty() => {
                    let known = capable(segment).is_some();
                    self.checksum |= capable(segment).is_some_and(|c| c.checksum_required);
                    let handshake =
                        if known { Handshake::Capable { confirmed: false } } else { Handshake::Plain };
                    self.begin(now, (local, remote));
                    return Some(self.listen(
                        now,
                        (local, remote),
                        (at, Pair::default()),
                        (handshake, false),
                    ));
                }
                Some(&Join::Syn { backup, address_id, token, nonce })
                    if self.phase == Phase::Multipath
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
        let index = self.slot(|s| s.dead && s.pair.local == pair.local && s.pair.remote == pair.remote);
        let local = (ends.0, self.locals[at].address.mtu);
        let mut block = Tcb::server(self.config.tcp.clone(), local, PathId(index as u8));
        block.begin(Numbers::new(&self.secrets, now, ends));
        self.place(index, Subflow::new(block, pair, handshake, backup));
        index
    }

    fn reset_stranger(&mut self, (local, remote): (SocketAddr, SocketAddr), segment: &Segment) {
        if segment.flags.contains(Flags::RST) || self.role == Role::Client && self.phase == Phase::Opening {
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
        self.strays.push_back(Packet {
            source: local.ip(),
            destination: remote.ip(),
            ecn: wire::Ecn::NotEct,
            body: Body::Tcp(reset),
        });
    }

    /// Whether a listening subflow may see a segment: its handshake's third segment must carry the keys or the code.
    fn admit(&mut self, index: usize, segment: &Segment) -> bool {
        let subflow = &mut self.subflows[index];
        let plain_control = segment.flags.intersects(Flags::SYN | Flags::RST);
        if subflow.block.state() != State::SynReceived || plain_control {
            return true;
        }
        match &mut subflow.handshake {
            Handshake::Capable { confirmed: false } if self.role == Role::Server => {
                if let Some(&Capable { sender_key: Some(theirs), receiver_key: Some(ours), .. }) =
                    capable(segment)
                {
                    if ours == self.keys.local.secret {
                        self.keys.remote = Some(Key::new(theirs));
                    }
                    return ours == self.keys.local.secret;
                }
                // Data that overtook the third segment has to wait for it; no option at all means a middlebox.
                if has_multipath(segment) {
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
                        subflow.block.abort();
                        subflow.dead = true;
                        false
                    }
                    None => false,
                }
            }
            _ => true,
        }
    }

    /// A subflow's handshake is complete; false if it had to be given up.
    fn on_established(&mut self, now: Time, index: usize, segment: &Segment) -> bool {
        match self.subflows[index].handshake {
            Handshake::Plain => self.become_plain(),
            Handshake::Capable { .. } => {
                if self.role == Role::Client {
                    match capable(segment).and_then(|c| c.sender_key.map(|key| (key, c.checksum_required))) {
                        Some((key, checksum)) => {
                            self.keys.remote = Some(Key::new(key));
                            self.checksum |= checksum;
                        }
                        None => self.become_plain(),
                    }
                } else if self.keys.remote.is_some() {
                    self.subflows[index].handshake = Handshake::Capable { confirmed: true };
                } else {
                    self.become_plain(); // both seem to have opened at once, and nobody said its key
                }
                if self.phase == Phase::Opening {
                    self.phase = Phase::Multipath;
                    if self.closing {
                        self.send.fin = DataFin::Wanted;
                    }
                    self.subflows[index].prefers = self.subflows[index].backup;
                    self.announce_addresses(now);
                }
            }
            Handshake::Joining { nonce, .. } => return self.on_join_answered(now, (index, nonce), segment),
            Handshake::Joined { .. } => {
                self.tally.joins += 1;
                self.subflows[index].block.ack_now();
                self.path_up(index);
            }
        }
        if index == 0 && !self.seen.connected {
            self.seen.connected = true;
            self.send.edge = self.subflows[0].block.peer_window();
            self.tell(Event::Connected);
            self.path_up(0);
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
            let subflow = &mut self.subflows[index];
            subflow.backup |= backup;
            let resend_at = Some(now + subflow.block.rtt().rto());
            subflow.handshake = Handshake::Joining { nonce, proof, confirmed: false, resend_at };
            return true;
        }
        self.subflows[index].block.abort();
        self.on_subflow_over(now, index);
        false
    }

    pub(super) fn path_up(&mut self, index: usize) {
        self.linger_until = None;
        let subflow = &mut self.subflows[index];
        if !subflow.announced {
            subflow.announced = true;
            self.tell(Event::PathUp(PathId(index as u8)));
        }
        self.update_counted();
    }

    /// RFC 8684 §3.7: goes on as plain TCP on the initial subflow.
    pub(super) fn become_plain(&mut self) {
        self.phase = Phase::Plain;
        (self.data_timer, self.retry_at) = (None, None);
        self.send.reinjections.clear();
        self.receive.ahead.clear(); // positions count from now on
        self.control.clear();
        self.locals.iter_mut().for_each(|l| l.announce = None);
        if let Some(subflow) = self.subflows.first_mut() {
            subflow.block.own_window();
            subflow.handshake = Handshake::Plain;
            if self.closing {
                subflow.block.close();
            }
        }
        for subflow in self.subflows.iter_mut().skip(1).filter(|s| !s.dead) {
            subflow.block.abort();
        }
    }

    /// A subflow's block has taken a segment: draws the conclusions.
    fn after(&mut self, now: Time, index: usize, segment: &Segment) {
        if self.phase == Phase::Plain {
            if segment.options.mptcp.dss.is_none() {
                self.subflows[index].failed = None;
            }
            self.deliver_plain(index);
            return;
        }
        if !segment.flags.contains(Flags::SYN) {
            self.confirm(now, index, segment);
            if self.phase == Phase::Plain {
                self.deliver_plain(index);
                return;
            }
        }
        if !segment.options.mptcp.others.is_empty() {
            self.on_control(now, index, segment);
        }
        if let Some(dss) = segment.options.mptcp.dss {
            self.on_dss(now, (index, &dss), segment);
        }
        match self.phase {
            Phase::Plain => return self.deliver_plain(index),
            Phase::Closed(_) => return,
            Phase::Opening | Phase::Multipath => self.deliver(index),
        }
        let subflow = &mut self.subflows[index];
        subflow.prune();
        if !subflow.counted && subflow.is_usable() {
            self.update_counted();
        }
        let subflow = &self.subflows[index];
        if subflow.block.peer_finished() && !subflow.closing {
            self.retire(index);
        }
    }

    /// The peer closed one subflow: so does this side, and what it did not acknowledge goes elsewhere.
    fn retire(&mut self, index: usize) {
        self.reinject_all(index, Some(PathId(index as u8)));
        self.subflows[index].closing = true;
        self.subflows[index].block.close();
        self.update_counted();
    }

    /// The first segment after the handshake tells whether the other side saw ours.
    fn confirm(&mut self, now: Time, index: usize, segment: &Segment) {
        match &mut self.subflows[index].handshake {
            Handshake::Capable { confirmed } if !*confirmed => {
                if segment.options.mptcp.dss.is_some() {
                    *confirmed = true;
                    self.open_wanted(now);
                } else if !has_multipath(segment) && !segment.flags.contains(Flags::RST) {
                    self.become_plain();
                }
            }
            Handshake::Joining { confirmed, resend_at, .. } if !*confirmed => {
                *confirmed = true;
                *resend_at = None;
                self.tally.joins += 1;
                self.path_up(index);
            }
            _ => {}
        }
    }

    fn on_control(&mut self, now: Time, index: usize, segment: &Segment) {
        for option in &segment.options.mptcp.others {
            match option {
                Control::Capable(Capable { data: Some(data), .. })
                    if self.role == Role::Server
                        && matches!(self.subflows[index].handshake, Handshake::Capable { .. }) =>
                {
                    self.subflows[index].learn(Mapping { start: 0, len: u32::from(data.len), data: 0 });
                }
                // Again: the segment that answers it was lost (RFC 8684 §3.2).
                Control::Join(Join::Ack { .. }) => self.subflows[index].block.ack_now(),
                Control::AddAddress(add) => self.on_add_address(now, add),
                Control::RemoveAddress(ids) => self.on_remove_address(now, ids),
                Control::Priority { backup } => {
                    self.subflows[index].backup = *backup;
                    self.update_counted();
                }
                Control::FastClose { receiver_key } if *receiver_key == self.keys.local.secret => {
                    for subflow in self.subflows.iter_mut().filter(|s| !s.dead) {
                        subflow.block.abort();
                    }
                    self.finish(Reason::Reset);
                }
                // On an RST it says no more than that this subflow is over.
                Control::Fail { .. } if !segment.flags.contains(Flags::RST) => self.on_fail(index),
                _ => {}
            }
        }
    }

    /// Data on a subflow is not what its checksum says (RFC 8684 §3.7): something on the way changes it. With another
    /// subflow left this one ends, with an RST that says why; otherwise plain TCP is all that is possible.
    fn on_wrong_checksum(&mut self, index: usize, dsn: u64) {
        self.subflows[index].failed = Some(dsn);
        if self.subflows.iter().enumerate().any(|(i, s)| i != index && s.is_usable()) {
            self.subflows[index].block.abort();
        } else {
            self.fall_back(index);
        }
    }

    /// The peer found a wrong checksum on a subflow and wants to go on with it.
    fn on_fail(&mut self, index: usize) {
        if self.subflows.iter().enumerate().any(|(i, s)| i != index && s.is_usable()) {
            self.subflows[index].block.abort();
        } else if self.phase == Phase::Multipath {
            self.fall_back(index);
        }
    }

    /// Goes on as plain TCP in mid-connection, which needs a subflow that has carried everything so far and nothing
    /// twice. With any other, what was sent and what is missing cannot be told from the outside: the connection ends.
    fn fall_back(&mut self, index: usize) {
        if index == 0 && self.subflows[0].identical {
            self.become_plain();
        } else {
            self.fast_close();
        }
    }

    pub(super) fn is_genuine(&self, id: u8, at: SocketAddr, port: Option<u16>, hmac: u64) -> bool {
        self.keys
            .remote
            .is_some_and(|remote| address_hmac(&remote, &self.keys.local, (id, at.ip(), port)) == hmac)
    }

    fn on_dss(&mut self, now: Time, (index, dss): (usize, &Dss), segment: &Segment) {
        let Some(remote) = self.keys.remote else { return };
        if let Some(number) = dss.data_ack {
            let base = self.keys.local.idsn.wrapping_add(1);
            let ack = unwrap(number, base.wrapping_add(self.send.una)).wrapping_sub(base);
            self.on_data_ack(now, (index, ack), segment);
        }
        let Some(mapping) = dss.mapping else { return };
        if mapping.len == 0 {
            self.fall_back(index); // an infinite mapping: the peer fell back
            return;
        }
        let base = remote.idsn.wrapping_add(1);
        let data = unwrap(mapping.dsn, base.wrapping_add(self.receive.nxt)).wrapping_sub(base);
        if data > self.receive.limit(self.config.tcp.receive_buffer) {
            return; // beyond the window, or from before the first byte, which looks the same
        }
        let len = u32::from(mapping.len) - u32::from(dss.data_fin);
        if dss.data_fin {
            self.receive.ends_at(data + u64::from(len));
            self.subflows[index].block.ack_now();
        }
        if len == 0 || segment.payload.is_empty() {
            return;
        }
        let subflow = &mut self.subflows[index];
        let near = subflow.taken + 1;
        let start = Serial(mapping.subflow_seq).unwrap_near(near).wrapping_sub(1);
        let position = subflow.block.stream_position(segment.seq);
        let Some(offset) = position.checked_sub(start).filter(|&offset| offset < u64::from(len)) else {
            return; // it does not cover this segment
        };
        if segment.payload.offset != data + offset {
            self.tally.misplaced += u64::from(segment.payload.len);
        }
        let subflow = &mut self.subflows[index];
        if let Some(checksum) = mapping.checksum
            && len == segment.payload.len
        {
            let sum = Checksum::new().pattern(segment.payload);
            let dsn = base.wrapping_add(data);
            if dss_checksum(dsn, mapping.subflow_seq, mapping.len, sum) != checksum {
                self.tally.checksum_failures += 1;
                self.on_wrong_checksum(index, dsn);
                return;
            }
        }
        subflow.learn(Mapping { start, len, data });
    }

    fn on_data_ack(&mut self, now: Time, (index, ack): (usize, u64), segment: &Segment) {
        let (una, fin) = (self.send.una, self.send.fin);
        if !self.send.acknowledge(ack) {
            return;
        }
        let window = self.subflows[index].block.scaled_window(segment);
        self.send.edge = self.send.edge.max(ack + window);
        if self.send.una > una || self.send.fin != fin {
            self.data_backoff = 0;
            let pending = self.send.una < self.send.highest() || self.send.fin == DataFin::Sent;
            self.data_timer = if pending { Some(now + self.data_timeout()) } else { None };
        }
    }

    /// Passes on what a subflow received in its own order.
    fn deliver(&mut self, index: usize) {
        let limit = self.receive.limit(self.config.tcp.receive_buffer);
        let finished = self.receive.finished();
        while let Some((start, end)) = self.subflows[index].take() {
            let new = self.receive.store(start, end, limit);
            self.subflows[index].new += new;
        }
        if self.receive.finished() && !finished {
            self.subflows[index].block.ack_now();
        }
    }

    /// In plain TCP a subflow's stream is the connection's.
    fn deliver_plain(&mut self, index: usize) {
        let subflow = &mut self.subflows[index];
        let (from, to) = (self.receive.nxt, subflow.block.received());
        self.receive.nxt = to.max(from);
        subflow.new += self.receive.nxt - from;
        subflow.taken = self.receive.nxt;
        if subflow.block.peer_finished() {
            self.receive.fin = Some(self.receive.nxt);
        }
        let acked = subflow.block.acknowledged().min(self.send.written);
        subflow.prune();
        self.send.una = self.send.una.max(acked);
    }
}

fn unwrap(number: DataNumber, near: u64) -> u64 {
    match number {
        DataNumber::Short(low) => Serial(low).unwrap_near(near),
        DataNumber::Long(number) => number,
    }
}
