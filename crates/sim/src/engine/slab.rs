//! Packets in flight: one pool of slots, moved around as 32-bit handles.
//!
//! A packet is written once when it is sent and read once when it arrives; routers and links touch only its handle. What
//! a hop needs to know lies in a small array of its own, so that forwarding does not pull whole packets into the cache.

use wire::{Ecn, Packet};

/// What a hop needs to know of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Itinerary {
    /// Position in the table of hops: the next link direction to take.
    pub cursor: u32,
    /// The end of a flow that it is addressed to.
    pub to: u32,
}

/// A pool of packets.
#[derive(Debug, Default)]
pub struct PacketSlab {
    packets: Vec<Option<Packet>>,
    itineraries: Vec<Itinerary>,
    free: Vec<u32>,
}

impl PacketSlab {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a packet in; the handle stays valid until [`take`](Self::take).
    #[inline]
    pub fn insert(&mut self, packet: Packet, itinerary: Itinerary) -> u32 {
        // The slot that was freed last is the one most likely still in the cache.
        if let Some(id) = self.free.pop() {
            self.packets[id as usize] = Some(packet);
            self.itineraries[id as usize] = itinerary;
            id
        } else {
            self.packets.push(Some(packet));
            self.itineraries.push(itinerary);
            u32::try_from(self.packets.len() - 1).expect("fewer than 2^32 packets are in flight")
        }
    }

    /// Takes a packet out.
    #[inline]
    pub fn take(&mut self, id: u32) -> Packet {
        self.free.push(id);
        self.packets[id as usize].take().expect("a handle is used until its packet is taken, and no longer")
    }

    /// Looks at a packet.
    pub fn get(&self, id: u32) -> &Packet {
        self.packets[id as usize].as_ref().expect("a handle is used until its packet is taken, and no longer")
    }

    /// What a hop needs to know of a packet.
    #[inline]
    pub fn itinerary(&mut self, id: u32) -> &mut Itinerary {
        &mut self.itineraries[id as usize]
    }

    /// Sets the ECN field of a packet.
    pub fn mark(&mut self, id: u32, ecn: Ecn) {
        if let Some(packet) = &mut self.packets[id as usize] {
            packet.ecn = ecn;
        }
    }

    /// How many packets were in the pool at the same time, at most.
    pub fn high_water(&self) -> usize {
        self.packets.len()
    }

    /// How many packets are in the pool.
    pub fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// True without a packet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
