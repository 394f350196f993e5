//! Packets that a link duplicates.
//!
//! Most protocols recognise a second copy by its sequence number. A datagram of UDP has none, so the network counts
//! its copies: the datagram is lost if all of them are dropped, and only the first arrival counts as delivered.

use super::datagram::Copies;
use super::{Datapath, EndId, PacketRef, Time};
use anabranch_wire::Body;

impl Datapath {
    /// Offers a copy of a frame that was just offered.
    #[cold]
    pub(super) fn offer_copy(&mut self, now: Time, direction: u32, frame: PacketRef) {
        let packet = self.slab.get(frame.id).clone();
        let sender = self.sender_of(frame);
        if let (Some(sender), Body::Udp(datagram)) = (sender, &packet.body) {
            let first = Copies { outstanding: 1, is_delivered: false };
            self.copies.entry((sender, datagram.payload.offset)).or_insert(first).outstanding += 1;
        }
        let mut copy = frame;
        copy.id = self.slab.insert(packet);
        if self.encoding.is_some() {
            self.encode(now, sender, copy.id);
        }
        self.links[direction as usize].link.offer(now, copy);
    }

    /// Records that a copy of a datagram was dropped. Returns whether the datagram is lost.
    pub(super) fn is_last_copy_lost(&mut self, sender: EndId, offset: u64) -> bool {
        self.end_copy(sender, offset, false)
            .is_none_or(|copies| copies.outstanding == 0 && !copies.is_delivered)
    }

    /// Records that a frame has arrived. Returns whether it is a datagram of which another copy has arrived before.
    #[inline]
    pub fn is_repeated_datagram(&mut self, sender: EndId, frame: PacketRef) -> bool {
        if self.copies.is_empty() {
            return false;
        }
        let Body::Udp(datagram) = &self.slab.get(frame.id).body else { return false };
        let offset = datagram.payload.offset;
        self.end_copy(sender, offset, true).is_some_and(|copies| copies.is_delivered)
    }

    /// Ends one copy of a datagram. Returns the state before, with the number of copies after it; `None` if the
    /// datagram has only one copy.
    #[cold]
    fn end_copy(&mut self, sender: EndId, offset: u64, arrived: bool) -> Option<Copies> {
        let copies = self.copies.get_mut(&(sender, offset))?;
        copies.outstanding -= 1;
        let before = *copies;
        copies.is_delivered |= arrived;
        if copies.outstanding == 0 {
            self.copies.remove(&(sender, offset));
        }
        Some(before)
    }
}
