//! Checks of packets against their encoding, and packets that links carry as bytes.

use super::encoding::Encoding;
use super::{Datapath, EndId, Failure, PacketRef, Role, Time};
use anabranch_wire::Packet;

impl Datapath {
    /// Encodes and parses every packet sent from now on.
    pub fn check_wire(&mut self) {
        self.encoding = Some(Encoding::Checked(Vec::new()));
        self.intercepts_sent = true;
    }

    /// Sends every packet from now on as bytes, and delivers each at its own time, without lookahead.
    pub fn carry_bytes(&mut self) {
        self.encoding = Some(Encoding::Carried(Vec::new()));
        self.intercepts_sent = true;
        self.keep_order();
        for state in &mut self.links {
            state.role = Role::Plain;
        }
    }

    /// True if every packet is checked.
    pub const fn is_checking(&self) -> bool {
        self.encoding.is_some()
    }

    /// True if links carry packets as bytes.
    pub const fn carries_bytes(&self) -> bool {
        matches!(self.encoding, Some(Encoding::Carried(_)))
    }

    /// Checks an arrival: the connection that the engine assigns to the packet must be the one that the host `found`
    /// from the packet's contents. The host may find none: after a path has ended, the connection itself handles late
    /// packets.
    pub fn check_connection<C: PartialEq>(&mut self, at: Time, to: EndId, (own, found): (C, Option<C>)) {
        if found.is_some_and(|found| found != own) && self.failure.is_none() {
            self.failure = Some(Failure::OtherConnection { at, to });
        }
    }

    /// Keeps a copy of every packet that an end of a flow sends as bytes, for [`take_sent`](Self::take_sent).
    pub fn keep_sent(&mut self) {
        self.sent.get_or_insert_default();
    }

    /// The packets that ends of flows have sent since the last call.
    pub fn take_sent(&mut self) -> Vec<Packet> {
        self.sent.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Encodes a packet of an end of a flow.
    #[cold]
    pub(super) fn encode_sent(&mut self, at: Time, from: EndId, id: u32) {
        if let Some(sent) = &mut self.sent {
            sent.push(self.slab.get(id).clone());
        }
        self.encode(at, Some(from), id);
    }

    /// Encodes a packet that was just stored.
    #[cold]
    pub(super) fn encode(&mut self, at: Time, from: Option<EndId>, id: u32) {
        let encoded = self.encoding.as_mut().map_or(Ok(()), |encoding| encoding.encode(&self.slab, id));
        if let (Err(error), Some(from)) = (encoded, from) {
            self.failure.get_or_insert(Failure::Wire { at, from, error });
        }
    }

    /// Replaces a stored packet by the packet that is parsed from its bytes. The ECN mark comes from the frame:
    /// a queue does not mark the bytes.
    ///
    /// Returns false if the bytes are invalid; the run then fails.
    pub fn parse_arrival(&mut self, at: Time, frame: PacketRef) -> bool {
        let from = self.sender_of(frame).unwrap_or_default();
        let Self { slab, encoding: Some(encoding), failure, .. } = self else { return true };
        match encoding.parse(slab, frame.id) {
            Ok(()) => true,
            Err(error) => {
                failure.get_or_insert(Failure::Wire { at, from, error });
                false
            }
        }
    }
}
