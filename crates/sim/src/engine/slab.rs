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

/// Slots of a block.
const BLOCK_SLOTS: usize = 256;

/// The pool grows when less than this part of its slots is free. The search for a free slot examines 64 slots at a time,
/// and all slots once per circle: with one free slot in 16, that is a quarter of a step per packet.
const FREE_PART: usize = 16;

/// Growth of the pool, as a part of its blocks. Packets in flight are most of the memory of a large scenario.
const GROWTH_PART: usize = 8;

/// Storage of a packet: two cache lines.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot(Option<Packet>);

const _: () = assert!(size_of::<Slot>() <= 128, "a packet has outgrown two cache lines");

/// Slots that are allocated together. The pool grows by whole blocks, and no packet moves: a copy of all packets would take
/// the memory of the pool a second time.
#[derive(Debug)]
struct Block(Box<[Slot; BLOCK_SLOTS]>);

impl Default for Block {
    fn default() -> Self {
        Self(Box::new(core::array::from_fn(|_| Slot::default())))
    }
}

/// A pool of packets.
#[derive(Debug, Default)]
pub struct PacketSlab {
    blocks: Vec<Block>,
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
        let slots = self.slots();
        if self.used + slots / FREE_PART >= slots {
            self.grow();
        }
        let slot = self.find_free();
        self.free[slot / 64] &= !(1 << (slot % 64));
        self.next = if slot + 1 < self.slots() { slot + 1 } else { 0 };
        self.used += 1;
        self.high_water = self.high_water.max(self.used);
        *self.slot_mut(slot) = Some(packet);
        slot as u32
    }

    /// Removes and returns a packet.
    #[expect(clippy::inline_always, reason = "a call would copy the packet once more")]
    #[inline(always)]
    pub fn take(&mut self, id: u32) -> Packet {
        let slot = id as usize;
        self.free[slot / 64] |= 1 << (slot % 64);
        self.used -= 1;
        self.slot_mut(slot).take().expect(NO_STALE_HANDLE)
    }

    /// A packet.
    pub fn get(&self, id: u32) -> &Packet {
        let slot = id as usize;
        self.blocks[slot / BLOCK_SLOTS].0[slot % BLOCK_SLOTS].0.as_ref().expect(NO_STALE_HANDLE)
    }

    /// A packet, to change it.
    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut Packet {
        self.slot_mut(id as usize).as_mut().expect(NO_STALE_HANDLE)
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

    /// Number of slots.
    #[inline]
    const fn slots(&self) -> usize {
        self.blocks.len() * BLOCK_SLOTS
    }

    #[inline]
    fn slot_mut(&mut self, slot: usize) -> &mut Option<Packet> {
        &mut self.blocks[slot / BLOCK_SLOTS].0[slot % BLOCK_SLOTS].0
    }

    #[cold]
    fn grow(&mut self) {
        let blocks = self.blocks.len() + (self.blocks.len() / GROWTH_PART).max(1);
        assert!(u32::try_from(blocks * BLOCK_SLOTS - 1).is_ok(), "handles have 32 bits");
        // New slots are used next, so that the order of addresses stays the order of sending.
        self.next = self.slots();
        self.blocks.resize_with(blocks, Block::default);
        self.free.resize(self.slots() / 64, u64::MAX);
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
