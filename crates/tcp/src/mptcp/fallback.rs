//! Fallback to plain TCP, and subflows whose options a middlebox removes (RFC 8684 §3.7).
//!
//! While a connection has had no other subflow than its first, a position on that subflow equals an offset of the
//! data, in both directions and at both ends: neither end sends data twice on it. Either end may then fall back to
//! plain TCP at any time, even without informing the other end. It tries to inform the peer with an infinite mapping
//! on every segment, until the peer has acknowledged such a segment. Until the peer falls back as well, its data and
//! its `DATA_FIN` are acknowledged at the connection level. Otherwise the peer would send them again, at positions of
//! new data.
//!
//! Once there was a second subflow, a subflow that loses options is reset, and its data is reinjected on another
//! subflow.

use super::connection::{Connection, ConnectionPhase, Role};
use super::mapping::Placed;
use super::options::uses_multipath;
use super::receive::Arrival;
use super::reset::ResetReason;
use super::subflow::{Handshake, Life, Subflow};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::Event;
use anabranch_multipath::PathId;
use anabranch_wire::tcp::mptcp::{Control, DataChecksum, DataNumber, Dss, Mapping};
use anabranch_wire::tcp::{Flags, SackBlocks, Segment};

/// Consecutive segments without a Multipath TCP option after which a middlebox is assumed to remove the options.
const MAX_BARE_SEGMENTS: u32 = 3;
/// Limit of arrivals of the next byte in order without a mapping. A later segment may still contain the mapping.
const MAX_UNMAPPED_ARRIVALS: u32 = 3;
/// Mappings with data that outweigh one arrival without a mapping. A middlebox that merges two segments drops the
/// mapping of the second. Two mappings arrive for each lost one: that of the first segment, and that of the
/// retransmission.
const MAPPINGS_PER_UNMAPPED: u32 = 4;
/// Limit of consecutive subflows that a middlebox makes useless.
const MAX_FUTILE_SUBFLOWS: u32 = 6;

impl Connection {
    /// Falls back to plain TCP on the initial subflow. `inform_peer` means that the peer may still expect Multipath TCP and
    /// has to be informed.
    pub(super) fn become_plain(&mut self, inform_peer: bool) {
        self.phase = ConnectionPhase::Plain;
        (self.data_timer, self.retry_at) = (None, None);
        self.send.reinjections.clear();
        self.repair = None;
        self.receive.ahead.clear(); // the subflow's positions replace data offsets
        self.waiting = None;
        self.placed = Placed::default();
        self.control.clear();
        self.repeated.clear();
        self.portless.clear();
        self.locals.iter_mut().for_each(|l| l.announce = None);
        if let Some(subflow) = self.subflows.first_mut() {
            self.plain_from = inform_peer.then(|| subflow.block.sent());
            subflow.block.own_window();
            if inform_peer {
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
            self.abort_after_fallback(index);
        }
    }

    /// Aborts a subflow other than the initial one, after fallback.
    fn abort_after_fallback(&mut self, index: usize) {
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
            self.notify(Event::PathDown(path));
        }
    }

    /// Falls back to plain TCP because the peer does. The initial subflow must have carried all data, each byte once.
    /// Otherwise data that was sent elsewhere cannot be distinguished from lost data, and the connection ends.
    pub(super) fn fall_back(&mut self, index: usize, inform_peer: bool) {
        if index == 0 && self.may_be_plain() {
            self.become_plain(inform_peer);
        } else {
            self.fast_close();
        }
    }

    /// Returns true if the stream of the initial subflow equals the connection's stream up to its end. A subflow may
    /// have ended before the data; such a subflow cannot become the whole connection.
    fn may_be_plain(&self) -> bool {
        let Some(subflow) = self.subflows.first() else { return false };
        let whole = match subflow.block.finishes() {
            None => true,
            Some(at) => self.closing && at.is_none_or(|at| at >= self.send.written),
        };
        subflow.identical && !subflow.is_dead() && whole
    }

    /// Returns true if there is another subflow, established or being opened.
    pub(super) fn has_other(&self, index: usize) -> bool {
        self.subflows.iter().enumerate().any(|(i, s)| i != index && !s.is_dead() && !s.block.is_over())
    }

    /// Handles a wrong checksum, which shows that a middlebox changes the data of a subflow. If there is another
    /// subflow, this one is reset with the reason; otherwise the connection falls back to plain TCP (RFC 8684 §3.7).
    pub(super) fn on_wrong_checksum(&mut self, index: usize, dsn: u64) {
        self.subflows[index].failed = Some(dsn);
        if self.has_other(index) {
            self.reset_useless(index);
        } else {
            self.fall_back(index, true);
        }
    }

    /// Handles an `MP_FAIL`: the peer found a wrong checksum on a subflow and continues there as plain TCP.
    pub(super) fn on_fail(&mut self, index: usize) {
        if self.phase == ConnectionPhase::Multipath {
            self.fall_back(index, true);
        }
    }

    /// Checks a segment of an established subflow for options of Multipath TCP. Each segment of a peer has at
    /// least one until the peer falls back.
    pub(super) fn watch_options(&mut self, index: usize, segment: &Segment) {
        let subflow = &mut self.subflows[index];
        if uses_multipath(segment) {
            subflow.stripped.bare = 0;
            return;
        }
        subflow.stripped.bare += 1;
        // The peer sends its FIN only once, so one FIN without options suffices.
        let ends =
            self.has_one_subflow && segment.flags.contains(Flags::FIN) && subflow.block.peer_finished();
        if subflow.stripped.bare >= MAX_BARE_SEGMENTS || ends {
            self.on_stripped(index);
        }
    }

    /// Counts refused payload that no mapping covers. `next` means that the payload starts with the next byte in
    /// order.
    pub(super) fn on_unmapped(&mut self, index: usize, next: bool) {
        let subflow = &mut self.subflows[index];
        subflow.stripped.unmapped += MAPPINGS_PER_UNMAPPED * u32::from(next);
        if subflow.stripped.unmapped >= MAPPINGS_PER_UNMAPPED * MAX_UNMAPPED_ARRIVALS {
            self.on_stripped(index);
        }
    }

    /// Reacts to segments of a subflow from which a middlebox has removed the options.
    pub(super) fn on_stripped(&mut self, index: usize) {
        if self.phase != ConnectionPhase::Multipath {
            return;
        }
        if self.has_one_subflow && index == 0 && self.may_be_plain() {
            self.become_plain(true);
        } else {
            self.reset_useless(index);
        }
    }

    /// Resets a subflow that a middlebox makes useless. After `MAX_FUTILE_SUBFLOWS` such subflows without any data in
    /// between, the connection ends.
    fn reset_useless(&mut self, index: usize) {
        self.futile += 1;
        if self.futile > MAX_FUTILE_SUBFLOWS {
            self.fast_close();
        } else {
            self.subflows[index].reset(ResetReason::Middlebox);
        }
    }

    /// Notes, after fallback, whether the peer has fallen back, too. It has if it acknowledges data that was sent
    /// with an infinite mapping, or sends an infinite mapping itself.
    ///
    /// An `MP_FAIL` of the peer is the answer to that of this end and gets no answer, because the two ends would
    /// answer each other forever.
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
            && uses_multipath(segment)
            && !(answers && segment.payload.is_empty())
        {
            subflow.block.ack_now(); // the peer still uses Multipath TCP: it has not noticed the fallback
        }
    }

    /// Adds the options to a segment that inform the peer of the fallback and its reason, until the peer has fallen
    /// back. An unanswered `MP_FAIL` is repeated after a retransmission timeout.
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
            // After fallback a position equals a data offset, and is sent as a sequence number of 4 bytes.
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

    /// `DATA_ACK` for a peer that still uses Multipath TCP.
    fn plain_data_ack(&self) -> Option<DataNumber> {
        let remote = self.keys.remote.filter(|_| self.plain_from.is_some() && !self.peer_is_plain)?;
        Some(DataNumber::Long(remote.idsn.wrapping_add(1).wrapping_add(self.receive.ack())))
    }

    /// Handles a SYN without `MP_CAPABLE` after one with it: the client got no answer and tries plain TCP.
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
