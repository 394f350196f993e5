//! A TCP connection or a subflow: two ends, and the directions between them.

use crate::mapping::Mappings;
use crate::nearest::{NearestInterfaces, Roles};
use crate::sending::{Ack, Arrived, Scale, Sending, Sent};
use anabranch_wire::tcp::mptcp::Control;
use anabranch_wire::tcp::{Flags, Segment};
use core::net::SocketAddr;

/// Maximum number of interfaces at which the arrivals of a direction are counted, until the interface nearest to the
/// receiver is known.
const MAX_ARRIVALS: usize = 3;
/// Number of recent packets by which a copy is recognised, from the identification in its IP header.
const RECENT_PACKETS: usize = 16;

/// The means by which a subflow was assigned to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// `MP_CAPABLE`: the first subflow.
    Capable,
    /// The token in `MP_JOIN`.
    Token,
    /// Data sequence numbers near those of the connection, because no handshake was captured.
    Numbers,
}

/// State of a conversation between two ends. Side 0 is the source of the first packet.
#[derive(Clone, Debug)]
pub(crate) struct Subflow {
    pub ends: [SocketAddr; 2],
    pub sending: [Sending; 2],
    pub arrivals: [Vec<(u32, Arrived)>; 2],
    pub mappings: [Mappings; 2],
    /// The side that sent the SYN.
    pub initiator: Option<usize>,
    /// The connection, and the means by which this subflow was assigned to it.
    pub member: Option<(u32, Membership)>,
    /// True if side 0 is side 1 of the connection.
    pub is_flipped: bool,
    pub handshake: Handshake,
    pub per_stream: [StreamCounts; 2],
    /// Number of packets that an interface shows twice.
    pub copies: u64,
    pub nearest: NearestInterfaces,
    recent: [[(u16, u32); RECENT_PACKETS]; 2],
    at: [usize; 2],
}

/// Options of the handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handshake {
    /// True if the first SYN had `MP_CAPABLE` or `MP_JOIN`.
    pub syn_has_option: Option<bool>,
    /// True if the SYN/ACK had `MP_CAPABLE` or `MP_JOIN`.
    pub answer_has_option: Option<bool>,
    pub is_join: bool,
    pub is_backup: bool,
    pub has_fallen_back: bool,
    pub is_reset: bool,
}

/// Bytes of one direction of a subflow, by their state in the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamCounts {
    /// Data that this subflow sent first.
    pub new: u64,
    /// Data that another subflow, or this one under other sequence numbers, had sent before.
    pub reinjected: u64,
    /// Data without a mapping.
    pub unmapped: u64,
}

impl Subflow {
    /// A conversation that begins with a packet from `source`.
    pub fn new(source: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            ends: [source, destination],
            sending: Default::default(),
            arrivals: Default::default(),
            mappings: Default::default(),
            initiator: None,
            member: None,
            is_flipped: false,
            handshake: Handshake::default(),
            per_stream: Default::default(),
            copies: 0,
            nearest: NearestInterfaces::default(),
            recent: Default::default(),
            at: [0; 2],
        }
    }

    /// The side of the connection that corresponds to a side of this subflow.
    pub fn of_connection(&self, side: usize) -> usize {
        side ^ usize::from(self.is_flipped)
    }

    /// Arrivals of a direction at the interface nearest to its receiver, if it differs from the one nearest to the
    /// sender.
    pub fn arrived(&self, side: usize) -> Option<&Arrived> {
        let home = self.nearest.other(side)?;
        self.arrivals[side].iter().find(|(tap, _)| *tap == home).map(|(_, arrived)| arrived)
    }

    /// True if a segment begins another connection between the same ends.
    pub fn is_another(&self, side: usize, segment: &Segment) -> bool {
        let is_first = segment.flags.intersects(Flags::SYN) && !segment.flags.intersects(Flags::ACK);
        let known = self.sending[side].isn;
        let has_data = self.sending.iter().any(|sending| sending.data_packets > 0 || sending.data.has_fin);
        is_first && (known.is_some_and(|isn| isn != segment.seq) || (known.is_none() && has_data))
    }

    /// True if this is a copy of a packet that the same interface showed before.
    pub fn is_copy(&mut self, (side, tap): (usize, u32), identification: u16, segment: &Segment) -> bool {
        let key = (identification, segment.seq.0 ^ segment.ack.0.rotate_left(16) ^ tap.rotate_left(8));
        if identification == 0 {
            return false;
        }
        if self.recent[side].contains(&key) {
            self.copies += 1;
            return true;
        }
        let at = &mut self.at[side];
        self.recent[side][*at] = key;
        *at = (*at + 1) % RECENT_PACKETS;
        false
    }

    /// Processes a packet at an interface. Returns `None` if another interface is nearer to the packet's sender.
    pub fn on_segment(
        &mut self,
        now_ns: u64,
        (side, tap, roles): (usize, u32, Roles),
        segment: &Segment,
    ) -> Option<Sent> {
        let is_syn = segment.flags.intersects(Flags::SYN);
        let sent = if roles.is_near {
            if is_syn {
                self.mappings[side].set_isn(segment.seq);
            }
            self.note_handshake(side, segment);
            Some(self.sending[side].on_segment(now_ns, segment))
        } else {
            self.note_arrival(now_ns, (side, tap), segment);
            None
        };
        if roles.is_far && segment.flags.intersects(Flags::ACK) && !segment.flags.intersects(Flags::RST) {
            let ack = Ack {
                number: segment.ack,
                window: segment.window,
                scale: self.scale_of(side),
                is_syn,
                stamp: segment.options.timestamps.map(|stamps| stamps.value),
                has_sack: !segment.options.sack.is_empty(),
            };
            let delay_ns = self.delay_ns(1 - side);
            self.sending[1 - side].on_ack(now_ns, &ack, delay_ns);
        }
        sent
    }

    /// The smallest round-trip time between a side and the interface nearest to it, nanoseconds.
    pub fn near_ns(&self, side: usize) -> Option<u64> {
        let other = self.sending[1 - side].far.min_ns().filter(|_| self.nearest.is_single());
        [self.sending[side].near.min_ns(), other].into_iter().flatten().min()
    }

    /// The present round-trip time between an interface and a side's sender. At the sender, larger samples than the
    /// smallest are due to times without data to send; elsewhere they are due to queues.
    pub fn delay_ns(&self, side: usize) -> u64 {
        let Some(near_ns) = self.near_ns(side) else { return 0 };
        let far_ns = self.sending[side].far.min_ns().unwrap_or(u64::MAX);
        let is_at_sender = near_ns < far_ns / 6;
        if is_at_sender { near_ns } else { self.sending[side].near.smoothed_ns().max(near_ns) }
    }

    /// The scale of a side's windows: no scaling if only one SYN has the option (RFC 7323 §2.2).
    pub fn scale_of(&self, side: usize) -> Scale {
        match (self.sending[side].scale, self.sending[1 - side].scale) {
            (Scale::Shift(_), Scale::Shift(0)) => Scale::Shift(0),
            (own, _) => own,
        }
    }

    fn note_arrival(&mut self, now_ns: u64, (side, tap): (usize, u32), segment: &Segment) {
        let from =
            self.sending[side].unwrap(segment.seq.add(u32::from(segment.flags.intersects(Flags::SYN))));
        let to = from + u64::from(segment.payload.len);
        let list = &mut self.arrivals[side];
        if let Some(home) = self.nearest.other(side) {
            list.retain(|(other, _)| *other == home);
            if tap != home {
                return;
            }
        }
        if list.iter().all(|(other, _)| *other != tap) && list.len() < MAX_ARRIVALS {
            list.push((tap, Arrived::default()));
        }
        if let Some((_, arrived)) = list.iter_mut().find(|(other, _)| *other == tap) {
            arrived.on_segment(now_ns, (from, to));
        }
    }

    fn note_handshake(&mut self, side: usize, segment: &Segment) {
        let options = &segment.options.mptcp.others;
        let has_option =
            options.iter().any(|option| matches!(option, Control::Capable(_) | Control::Join(_)));
        let (is_syn, is_ack) = (segment.flags.intersects(Flags::SYN), segment.flags.intersects(Flags::ACK));
        if is_syn && !is_ack {
            self.initiator = Some(side);
            self.handshake.syn_has_option.get_or_insert(has_option);
        } else if is_syn {
            self.initiator = Some(1 - side);
            self.handshake.answer_has_option = Some(has_option);
        }
        self.handshake.is_join |= options.iter().any(|option| matches!(option, Control::Join(_)));
    }
}
