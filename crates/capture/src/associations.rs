//! All SCTP associations of a capture, with bounded memory.

use crate::association::{Association, Sighting};
use crate::table::RemovedCounts;
use anabranch_wire::sctp::{Chunk, Packet};
use std::collections::BTreeMap;

/// Maximum number of associations; at this number the half with the fewest bytes is removed.
pub(crate) const MAX_ASSOCIATIONS: usize = 1_024;
/// Maximum number of associations among which one with the reverse path is searched.
const MAX_COMPARED: usize = 256;

/// Verification tag, source port and destination port of the packets from one side.
type Key = (u32, u16, u16);

/// The associations by the tags of their packets.
#[derive(Debug)]
pub(crate) struct Associations {
    pub all: BTreeMap<u32, Association>,
    pub forgotten: RemovedCounts,
    by_tag: BTreeMap<Key, (u32, usize)>,
    next: u32,
    budget: usize,
    max: usize,
}

impl Associations {
    /// An empty table of at most `max` associations and at most `budget` pieces of data for figures.
    pub fn new(max: usize, budget: usize) -> Self {
        let (all, by_tag) = (BTreeMap::new(), BTreeMap::new());
        Self { all, forgotten: RemovedCounts::default(), by_tag, next: 0, budget, max: max.max(2) }
    }

    /// Processes a packet at an interface.
    pub fn on_packet(&mut self, seen: &Sighting<'_>) {
        let packet = seen.packet;
        let key = (packet.verification_tag, packet.source_port, packet.destination_port);
        let known = self.by_tag.get(&key).copied().filter(|_| packet.verification_tag != 0);
        let (id, side) = known.unwrap_or_else(|| self.find(seen));
        for chunk in &packet.chunks {
            if let Chunk::Init(init) | Chunk::InitAck(init) = chunk {
                self.learn(init.initiate_tag, (packet.destination_port, packet.source_port), (id, 1 - side));
            }
        }
        let Some(association) = self.all.get_mut(&id) else { return };
        if packet.verification_tag != 0 {
            association.tags[side].get_or_insert(packet.verification_tag);
        }
        association.on_packet(side, seen, &mut self.budget);
    }

    /// Records that packets from a side have this tag.
    fn learn(&mut self, tag: u32, (source, destination): (u16, u16), (id, side): (u32, usize)) {
        if tag != 0 {
            self.by_tag.insert((tag, source, destination), (id, side));
            if let Some(association) = self.all.get_mut(&id) {
                association.tags[side] = Some(tag);
            }
        }
    }

    /// The association of a packet with an unknown tag, and the side that sent it.
    fn find(&mut self, seen: &Sighting<'_>) -> (u32, usize) {
        let packet = seen.packet;
        if let Some(tag) = initiate_tag(packet) {
            let answer = (tag, packet.destination_port, packet.source_port);
            if let Some(&(id, side)) = self.by_tag.get(&answer) {
                return (id, 1 - side);
            }
            return (self.insert([packet.source_port, packet.destination_port]), 0);
        }
        let reverse = self.all.iter().rev().take(MAX_COMPARED).find_map(|(&id, association)| {
            [0, 1].into_iter().find_map(|side| {
                let (mut ports, mut ends) =
                    ([packet.source_port, packet.destination_port], [seen.source, seen.destination]);
                if side == 1 {
                    ports.reverse();
                    ends.reverse();
                }
                let fits = association.tags[side].is_none()
                    && association.ports == ports
                    && association.has_path(ends);
                fits.then_some((id, side))
            })
        });
        let (id, side) = reverse.unwrap_or_else(|| {
            // If no handshake was captured, the end with the lower port counts as the server.
            let side = usize::from(packet.source_port < packet.destination_port);
            let mut ports = [packet.source_port, packet.destination_port];
            if side == 1 {
                ports.reverse();
            }
            (self.insert(ports), side)
        });
        self.learn(packet.verification_tag, (packet.source_port, packet.destination_port), (id, side));
        (id, side)
    }

    fn insert(&mut self, ports: [u16; 2]) -> u32 {
        if self.all.len() >= self.max {
            self.forget_half();
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.all.insert(id, Association::new(ports));
        id
    }

    /// Removes the half of the associations with the fewest bytes.
    fn forget_half(&mut self) {
        let mut all: Vec<(u64, u32)> = self.all.iter().map(|(&id, found)| (found.payload, id)).collect();
        all.sort_unstable();
        for &(payload, id) in &all[..all.len() / 2] {
            self.forgotten.conversations += 1;
            self.forgotten.payload += payload;
            let Some(mut association) = self.all.remove(&id) else { continue };
            for direction in &mut association.directions {
                self.budget += direction.pieces.clear();
            }
        }
        let kept = &self.all;
        self.by_tag.retain(|_, (id, _)| kept.contains_key(id));
    }
}

/// The initiate tag of an INIT, which is alone in its packet and has the verification tag 0.
fn initiate_tag(packet: &Packet) -> Option<u32> {
    match packet.chunks.first() {
        Some(Chunk::Init(init)) if packet.verification_tag == 0 => Some(init.initiate_tag),
        _ => None,
    }
}
