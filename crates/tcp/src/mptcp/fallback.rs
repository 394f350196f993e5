//! Fallback to plain TCP, and subflows whose options a middlebox removes (RFC 8684 §3.7).
//!
//! While a connection has had no other subflow than its first, a position on that subflow is an offset of the data,
//! in both directions and at both ends: neither end sends data twice on it. Either end may then fall back to plain
//! TCP at any time, even if it cannot inform the other end. It tries to do so with an infinite mapping on every
//! segment, until the peer has acknowledged one. Until the peer falls back as well, its data and its `DATA_FIN` are
//! acknowledged at the connection level: it would send them again, at positions of new data. Once there was a second subflow, a subflow that loses options is
//! reset, and its data is reinjected elsewhere.

use super::connection::{Connection, ConnectionPhase, Role};
use super::mapping::Placed;
use super::options::speaks_multipath;
use super::receive::Arrival;
use super::reset::ResetReason;
use super::subflow::{Handshake, Life, Subflow};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::Event;
use anabranch_multipath::PathId;
use anabranch_wire::tcp::mptcp::{Control, DataChecksum, DataNumber, Dss, Mapping};
use anabranch_wire::tcp::{Flags, SackBlocks, Segment};

/// Consecutive segments without any option of Multipath TCP after which a middlebox is assumed to remove them.
const BARE: u32 = 3;
/// How often the next byte in order may arrive without a mapping, because a later segment may contain it.
const UNMAPPED: u32 = 3;
/// Mappings with data that make up for one arrival without a mapping. Where a middlebox merges two segments, there are
/// two such mappings for each lost one: that of the first segment, and that of the retransmission.
const MAPPED: u32 = 4;
/// Consecutive subflows that may prove useless.
const FUTILE: u32 = 6;

impl Connection {
    /// Falls back to plain TCP on the initial subflow. With `tell` the peer may still expect Multipath TCP.
    pub(super) fn become_plain(&mut self, tell: bool) {
        self.phase = ConnectionPhase::Plain;
        (self.data_timer, self.retry_at) = (None, None);
        self.send.reinjections.clear();
        self.repair = None;
        self.receive.ahead.clear(); // positions count from now on
        self.waiting = None;
        self.placed = Placed::default();
        self.control.clear();
        self.repeated.clear();
        self.portless.clear();
        self.locals.iter_mut().for_each(|l| l.announce = None);
        if let Some(subflow) = self.subflows.first_mut() {
            self.plain_from = tell.then(|| subflow.block.sent());
            subflow.block.own_window();
            if tell {
                subflow.block.ack_now();
            } else {
                subflow.block.reserve_options(&mut *self.congestion, (0, 0));
            }
            subflow.handshake = Handshake::Plain;
            if self.closing {
                subflow.block.close();
            }
        }
        for index in 1..self.subflows.len() {
            self.leave(index);
        }
    }

    /// After fallback, any other subflow than the initial one is over.
    fn leave(&mut self, index: usize) {
        let subflow = &mut self.subflows[index];
        if subflow.is_dead() {
            return;
        }
        subflow.block.abort();
        let was_up = subflow.is_announced();
        subflow.life = Life::Dead;
        let path = PathId(index as u8);
        self.congestion.remove_path(path);
        if was_up {
            self.tell(Event::PathDown(path));
        }
    }

    /// Falls back to plain TCP because the peer does. This requires a subflow that has carried all data, each byte
    /// once. With any other subflow, sent and missing data cannot be distinguished, so the connection ends.
    pub(super) fn fall_back(&mut self, index: usize, tell: bool) {
        if index == 0 && self.may_be_plain() {
            self.become_plain(tell);
        } else {
            self.fast_close();
        }
    }

    /// Whether the stream of the initial subflow is that of the data, up to its end. A subflow may have ended before
    /// the data, which is normal until that subflow becomes the whole connection.
    fn may_be_plain(&self) -> bool {
        let Some(subflow) = self.subflows.first() else { return false };
        let whole = match subflow.block.finishes() {
            None => true,
            Some(at) => self.closing && at.is_none_or(|at| at >= self.send.written),
        };
        subflow.identical && !subflow.is_dead() && whole
    }

    /// There is, or may soon be, another subflow than this one.
    pub(super) fn has_other(&self, index: usize) -> bool {
        self.subflows.iter().enumerate().any(|(i, s)| i != index && !s.is_dead() && !s.block.is_over())
    }

    /// The checksum of data on a subflow is wrong: a middlebox changes it. With another subflow this one ends, with
    /// an RST that contains the reason; otherwise only plain TCP is possible.
    pub(super) fn on_wrong_checksum(&mut self, index: usize, dsn: u64) {
        self.subflows[index].failed = Some(dsn);
        if self.has_other(index) {
            self.give_up(index);
        } else {
            self.fall_back(index, true);
        }
    }

    /// The peer found a wrong checksum on a subflow and continues on it as plain TCP.
    pub(super) fn on_fail(&mut self, index: usize) {
        if self.phase == ConnectionPhase::Multipath {
            self.fall_back(index, true);
        }
    }

    /// Checks whether a segment of an established subflow belongs to Multipath TCP, as all segments of the peer do
    /// until it falls back.
    pub(super) fn watch_options(&mut self, index: usize, segment: &Segment) {
        let subflow = &mut self.subflows[index];
        if speaks_multipath(segment) {
            subflow.stripped.bare = 0;
            return;
        }
        subflow.stripped.bare += 1;
        // The end of the stream arrives only once, so a single FIN without options suffices.
        let ends = self.alone && segment.flags.contains(Flags::FIN) && subflow.block.peer_finished();
        if subflow.stripped.bare >= BARE || ends {
            self.on_stripped(index);
        }
    }

    /// Payload that no mapping covers was refused. `next` means that it is the next byte in order.
    pub(super) fn on_unmapped(&mut self, index: usize, next: bool) {
        let subflow = &mut self.subflows[index];
        subflow.stripped.unmapped += MAPPED * u32::from(next);
        if subflow.stripped.unmapped >= MAPPED * UNMAPPED {
            self.on_stripped(index);
        }
    }

    /// The options of a subflow do not reach the other end.
    pub(super) fn on_stripped(&mut self, index: usize) {
        if self.phase != ConnectionPhase::Multipath {
            return;
        }
        if self.alone && index == 0 && self.may_be_plain() {
            self.become_plain(true);
        } else {
            self.give_up(index);
        }
    }

    /// A middlebox makes a subflow useless. If that is repeated on `FUTILE` later subflows, and no data arrives in
    /// between, the connection ends.
    fn give_up(&mut self, index: usize) {
        self.futile += 1;
        if self.futile > FUTILE {
            self.fast_close();
        } else {
            self.subflows[index].reset(ResetReason::Middlebox);
        }
    }

    /// As plain TCP: the peer knows once it has acknowledged data sent with an infinite mapping, or sends one.
    ///
    /// An `MP_FAIL` of the peer answers that of this end, and is not answered: two ends would continue without end.
    pub(super) fn note_plain(&mut self, arrival: &Arrival<'_>) {
        let segment = arrival.segment;
        let mptcp = &segment.options.mptcp;
        let infinite = mptcp.dss.is_some_and(|dss| dss.mapping.is_some_and(|m| m.len == 0));
        let answers = mptcp.others.iter().any(|option| matches!(option, Control::Fail { .. }));
        self.peer_is_plain |= mptcp.dss.is_none() || infinite;
        if let Some(dss) = mptcp.dss.filter(|_| !self.peer_is_plain) {
            self.note_end(arrival, &dss);
        }
        let subflow = &mut self.subflows[0];
        if self.peer_is_plain || answers {
            subflow.failed = None;
        }
        if self.plain_from.is_some_and(|from| infinite || subflow.block.acknowledged() > from) {
            self.plain_from = None;
            subflow.block.reserve_options(&mut *self.congestion, (0, 0));
        } else if self.plain_from.is_some()
            && !infinite
            && speaks_multipath(segment)
            && !(answers && segment.payload.is_empty())
        {
            subflow.block.ack_now(); // it still uses Multipath TCP, so it does not know yet
        }
    }

    /// Adds options to a segment of plain TCP that inform the peer of the fallback and its reason, until the peer
    /// knows. An unanswered `MP_FAIL` is repeated after a retransmission timeout.
    pub(super) fn add_plain_options(&mut self, now: Time, index: usize, segment: &mut Segment) {
        if segment.flags.intersects(Flags::SYN | Flags::RST) {
            return;
        }
        let data_ack = self.plain_data_ack().filter(|_| segment.payload.is_empty());
        let subflow = &mut self.subflows[index];
        let may_fail = segment.payload.is_empty() && now >= subflow.fail_again;
        if let Some(dsn) = subflow.failed.filter(|_| may_fail) {
            subflow.fail_again = now + subflow.block.rtt().rto();
            segment.options.sack = SackBlocks::default();
            segment.options.mptcp.others.push(Control::Fail { dsn });
            segment.options.mptcp.dss = data_ack.map(|_| Dss { data_ack, mapping: None, data_fin: false });
        } else if self.plain_from.is_some() && self.keys.remote.is_some() {
            let subflow = &self.subflows[index];
            // Positions are data offsets, which fit into a segment's sequence numbers again from here on.
            let position =
                if segment.payload.is_empty() { subflow.block.sent() } else { segment.payload.offset };
            let mapping = Mapping {
                dsn: DataNumber::Long(self.dsn(position)),
                subflow_seq: (position as u32).wrapping_add(1),
                len: 0,
                checksum: self.checksum.then_some(DataChecksum::Known(0)),
            };
            segment.options.sack = SackBlocks::default();
            segment.options.mptcp.dss = Some(Dss { data_ack, mapping: Some(mapping), data_fin: false });
        }
    }

    /// The acknowledgement of data for a peer that still uses Multipath TCP.
    fn plain_data_ack(&self) -> Option<DataNumber> {
        let remote = self.keys.remote.filter(|_| self.plain_from.is_some() && !self.peer_is_plain)?;
        Some(DataNumber::Long(remote.idsn.wrapping_add(1).wrapping_add(self.receive.ack())))
    }

    /// A SYN without `MP_CAPABLE` follows one with it: the first one got no answer, and the client tries plain TCP.
    pub(super) fn on_plain_syn(&mut self, index: usize) {
        let subflow: &mut Subflow = &mut self.subflows[index];
        if self.role == Role::Server
            && subflow.life == Life::Opening
            && matches!(subflow.handshake, Handshake::Capable(_))
        {
            subflow.handshake = Handshake::Plain;
        }
    }
}
