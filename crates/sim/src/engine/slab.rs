//! Packets in flight: one pool of slots, referred to by 32-bit handles.
//!
//! A packet is written once when it is sent and read once when it arrives; routers and links use only its
//! handle, so that forwarding does not load packets into the cache.
//!
//! Slots are assigned in the order of their addresses, in a circle. Packets that are sent consecutively
//! arrive almost consecutively, so that both writing and reading access memory sequentially, which the
//! processor prefetches. Assigning the slot that was freed last, as pools usually do, scatters the packets:
//! with many thousand packets in flight nearly every access then misses the cache.

use anabranch_wire::{Ecn, Packet};

/// Message of the panic at the use of a stale handle.
const NO_STALE_HANDLE: &str = "no handle is used after its packet was taken";

/// Slots of a new pool.
const INITIAL_SLOTS: usize = 256;

/// Storage of a packet: two cache lines.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot(Option<Packet>);

const _: () = assert!(size_of::<Slot>() <= 128, "a packet has outgrown two cache lines");

/// A pool of packets.
#[derive(Debug, Default)]
pub struct PacketSlab {
    slots: Vec<Slot>,
    /// One bit per slot; set if the slot is free.
    free: Vec<u64>,
    /// Start of the search for the next free slot.
    next: usize,
    used: usize,
    high_water: usize,
}

impl PacketSlab {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a packet; the handle stays valid until [`take`](Self::take).
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> u32 {
        // While at least a quarter of the slots is free, the next free one is usually close.
        if 4 * self.used >= 3 * self.slots.len() {
            self.grow();
        }
        let slot = self.find_free();
        self.free[slot / 64] &= !(1 << (slot % 64));
        self.next = if slot + 1 < self.slots.len() { slot + 1 } else { 0 };
        self.used += 1;
        self.high_water = self.high_water.max(self.used);
        self.slots[slot].0 = Some(packet);
        slot as u32
    }

    /// Removes and returns a packet.
    #[inline]
    pub fn take(&mut self, id: u32) -> Packet {
        let slot = id as usize;
        self.free[slot / 64] |= 1 << (slot % 64);
        self.used -= 1;
        self.slots[slot].0.take().expect(NO_STALE_HANDLE)
    }

    /// A packet.
    pub fn get(&self, id: u32) -> &Packet {
        self.slots[id as usize].0.as_ref().expect(NO_STALE_HANDLE)
    }

    /// A packet, to change it.
    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut Packet {
        self.slots[id as usize].0.as_mut().expect(NO_STALE_HANDLE)
    }

    /// Sets the ECN field of a packet, and returns the packet.
    #[inline]
    pub fn mark(&mut self, id: u32, ecn: Ecn) -> &Packet {
        let packet = self.get_mut(id);
        packet.ecn = ecn;
        packet
    }

    /// Maximum number of packets in the pool at the same time.
    pub const fn high_water(&self) -> usize {
        self.high_water
    }

    /// Number of packets in the pool.
    pub const fn len(&self) -> usize {
        self.used
    }

    /// True if the slab has no packets.
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The first free slot from [`next`](Self::next) on, in a circle; there always is one.
    #[inline]
    fn find_free(&self) -> usize {
        let (word, bit) = (self.next / 64, self.next % 64);
        let rest = self.free[word] & (u64::MAX << bit);
        if rest != 0 {
            return word * 64 + rest.trailing_zeros() as usize;
        }
        let words = self.free.len();
        let found = (1..=words).map(|step| (word + step) % words).find(|&word| self.free[word] != 0);
        found.map_or(0, |word| word * 64 + self.free[word].trailing_zeros() as usize)
    }

    #[cold]
    fn grow(&mut self) {
        let slots = (self.slots.len() * 3 / 2).next_multiple_of(64).max(INITIAL_SLOTS);
        assert!(u32::try_from(slots - 1).is_ok(), "handles have 32 bits");
        // New slots are used next, so that the order of addresses stays the order of sending.
        self.next = self.slots.len();
        self.slots.reserve_exact(slots - self.slots.len());
        self.slots.resize_with(slots, Slot::default);
        self.free.resize(slots / 64, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::udp::Datagram;
    use anabranch_wire::{Body, Payload};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn packet(number: u64) -> Packet {
        let address = core::net::Ipv4Addr::LOCALHOST.into();
        let payload = Payload::new(number, 1);
        let body = Body::Udp(Datagram { source_port: 1, destination_port: 2, payload });
        Packet { source: address, destination: address, ecn: Ecn::NotEct, body }
    }

    #[test]
    fn slots_are_assigned_in_a_circle() {
        let mut slab = PacketSlab::new();
        let mut last = None;
        for number in 0..1000 {
            let id = slab.insert(packet(number));
            assert!(number == 0 || id == (last.unwrap_or(0) + 1) % 256, "{id}");
            last = Some(id);
            slab.take(id);
        }
        assert_eq!((slab.len(), slab.high_water()), (0, 1));
    }

    proptest! {
        #[test]
        fn handles_keep_their_packets(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..3000)) {
            let mut slab = PacketSlab::new();
            let mut model = BTreeMap::new();
            for (number, (insert, index)) in steps.into_iter().enumerate() {
                if insert || model.is_empty() {
                    let id = slab.insert(packet(number as u64));
                    prop_assert!(model.insert(id, number).is_none());
                } else {
                    let id = *model.keys().nth(index.index(model.len())).unwrap();
                    let number = model.remove(&id).unwrap();
                    prop_assert_eq!(slab.take(id), packet(number as u64));
                }
                prop_assert_eq!(slab.len(), model.len());
            }
        }
    }
}
