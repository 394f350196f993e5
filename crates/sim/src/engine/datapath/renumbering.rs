//! New addresses of links. Packets with earlier addresses are lost, as the network cannot route them any more.

use super::{Datapath, EndId, Interface, PacketRef};
use anabranch_wire::Packet;
use core::net::IpAddr;

impl Datapath {
    /// Gives both ends of a link new addresses.
    pub fn renumber(&mut self, link: usize) {
        let links = self.links.len() / 2;
        let generations = self.generations.get_or_insert_with(|| vec![0; links].into());
        generations[link] = generations[link].saturating_add(1);
    }

    /// Number of times that a link got new addresses.
    pub fn generation(&self, link: usize) -> u8 {
        self.generations.as_ref().map_or(0, |generations| generations[link])
    }

    /// True if both addresses of a packet are in use.
    pub(super) fn has_present_addresses(&self, packet: &Packet) -> bool {
        self.generations.is_none() || self.is_present(packet.source) && self.is_present(packet.destination)
    }

    fn is_present(&self, address: IpAddr) -> bool {
        Interface::with_generation(address)
            .is_none_or(|(interface, generation)| generation == self.generation(interface.link()))
    }

    /// Drops a frame that has arrived for an address that its host has lost. Returns whether it was dropped.
    #[inline]
    pub fn drops_misaddressed(&mut self, sender: EndId, frame: PacketRef) -> bool {
        self.generations.is_some() && self.drop_if_misaddressed(sender, frame)
    }

    #[cold]
    fn drop_if_misaddressed(&mut self, sender: EndId, frame: PacketRef) -> bool {
        let destination = self.slab.get(frame.id).destination;
        if self.is_present(destination) {
            return false;
        }
        let packet = self.slab.take(frame.id);
        self.unreachable += 1;
        self.record_lost(sender, &packet);
        true
    }
}
