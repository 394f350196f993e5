//! Middleboxes at the nodes of the network.

use super::{Datapath, EndId, Interface, Outcome, PacketRef, Time, UNREACHABLE, flow_of};
use crate::measure::digest::Digest;
use crate::scenario::{MiddleboxPlaces, Scenario};
use anabranch_middlebox::{Middlebox, Onward, Transit};
use anabranch_netem::{FlowHash, InterfaceAddress, IpVersion, Network};
use anabranch_wire::Packet;
use anabranch_wire::ip::protocol;
use core::net::SocketAddr;
use std::collections::BTreeMap;

/// Index of a packet's next hop in the routes.
type Next = u32;

/// Counts of a middlebox in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MiddleboxCounts {
    /// Packets that arrived at the node.
    pub packets: u64,
    /// Packets that were changed, split or merged.
    pub changed: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

/// A middlebox at its node.
#[derive(Debug)]
struct Placed {
    middlebox: Middlebox<Next>,
    node: usize,
    tally: MiddleboxCounts,
    drops: Digest,
    /// Time of the middlebox's scheduled event.
    due: Option<Time>,
    /// Routes from this node to ends of flows, for packets with a changed destination.
    back: BTreeMap<(InterfaceAddress, EndId, FlowHash), u32>,
}

/// The middleboxes of a network.
#[derive(Debug)]
pub struct Middleboxes {
    all: Vec<Placed>,
    places: MiddleboxPlaces,
}

impl Middleboxes {
    /// The middleboxes of a scenario; `None` without any.
    pub(super) fn of(scenario: &Scenario, network: &Network) -> Option<Box<Self>> {
        let places = MiddleboxPlaces::of(scenario)?;
        let placed = |(index, declared): (usize, &crate::scenario::model::Middlebox)| Placed {
            middlebox: Middlebox::new(&declared.does),
            node: network.owner(places.first_to(index).expect("the node has a link").opposite()),
            tally: MiddleboxCounts::default(),
            drops: Digest::new(),
            due: None,
            back: BTreeMap::new(),
        };
        let all = scenario.middleboxes.iter().enumerate().map(placed).collect();
        Some(Box::new(Self { all, places }))
    }

    /// Number of middleboxes.
    pub(super) const fn count(&self) -> usize {
        self.all.len()
    }

    /// Counts since the start, in the order of the scenario.
    pub fn counts(&self) -> impl Iterator<Item = MiddleboxCounts> {
        self.all.iter().map(|placed| placed.tally)
    }

    /// The inner address and port for which a translator uses `end` on the outside.
    fn inner_address_of(&self, end: SocketAddr) -> Option<SocketAddr> {
        self.all.iter().find_map(|placed| placed.middlebox.inner_address(protocol::TCP, end))
    }

    /// Adds the dropped packets to the digest.
    pub(super) fn digest(&self, digest: &mut Digest) {
        for placed in &self.all {
            digest.word(placed.drops.value());
        }
    }

    /// True if a link direction leads to a middlebox.
    #[inline]
    pub(super) fn is_at(&self, direction: u32) -> bool {
        self.places.at(Interface(direction)).is_some()
    }
}

impl Datapath {
    /// The real address and port of `end`, which may be the outer address of a translator.
    pub fn real_address(&self, end: SocketAddr) -> SocketAddr {
        self.middleboxes.as_ref().and_then(|middleboxes| middleboxes.inner_address_of(end)).unwrap_or(end)
    }

    /// Passes a frame that arrived by a direction to the middlebox of the node.
    #[cold]
    pub(super) fn pass_to_middlebox(&mut self, now: Time, direction: u32, frame: PacketRef) -> Outcome {
        if !self.parse_arrival(now, frame) {
            return Outcome::Nothing;
        }
        let hop = self.hops[frame.next as usize];
        let leaves_by = ((hop as usize) < self.links.len()).then_some(Interface(hop));
        let here = Interface(direction).opposite();
        let [arrival, departure] = [Some(here), leaves_by]
            .map(|interface| interface.map_or(0, |interface| self.generation(interface.link())));
        let Some(middleboxes) = &mut self.middleboxes else { return Outcome::Nothing };
        let place = middleboxes.places.at(Interface(direction));
        let (index, inside) = place.expect("the direction leads to a middlebox");
        let mut packet = self.slab.take(frame.id);
        packet.ecn = frame.ecn();
        let crosses = middleboxes.places.crosses(inside, leaves_by);
        let version = IpVersion::of(packet.source);
        let address = |at, generation| InterfaceAddress::first(at, version).ip(generation);
        let arrives_at = address(here, arrival);
        let leaves_from = leaves_by.map(|by| address(by, departure));
        let transit = Transit { packet, inside, crosses, arrives_at, leaves_from, onward: frame.next };
        let placed = &mut middleboxes.all[index];
        placed.tally.packets += 1;
        let mut outcome = anabranch_middlebox::Outcome::default();
        placed.middlebox.pass(now, transit, &mut outcome);
        self.apply_outcome(now, index, outcome);
        Outcome::Nothing
    }

    /// Processes the event of a middlebox.
    #[cold]
    pub(super) fn middlebox_due(&mut self, now: Time, index: usize) {
        let Some(middleboxes) = &mut self.middleboxes else { return };
        let placed = &mut middleboxes.all[index];
        if placed.due != Some(now) {
            // The middlebox has requested an earlier event since this one was scheduled.
            return;
        }
        placed.due = None;
        let mut outcome = anabranch_middlebox::Outcome::default();
        placed.middlebox.due(now, &mut outcome);
        self.apply_outcome(now, index, outcome);
    }

    fn apply_outcome(&mut self, now: Time, index: usize, outcome: anabranch_middlebox::Outcome<Next>) {
        for (packet, next) in outcome.dropped {
            let sender = self.sender_at(next);
            let placed = self.placed(index);
            placed.tally.dropped += 1;
            placed.drops.packet(now, (index as u32, packet.wire_len()), &packet);
            if let Some(sender) = sender {
                self.record_lost(sender, &packet);
            }
        }
        self.placed(index).tally.changed += outcome.changed;
        for (packet, onward) in outcome.sent {
            let next = match onward {
                Onward::As(next) => next,
                Onward::Back(like) => self.route_back(index, &packet, like),
            };
            if next == UNREACHABLE {
                self.unreachable += 1;
                continue;
            }
            self.emit(now, next, packet);
        }
        let component = self.links.len() as u32 + self.ends + index as u32;
        let placed = self.placed(index);
        if let Some(next) = placed.middlebox.next_event()
            && placed.due.is_none_or(|due| next < due)
        {
            placed.due = Some(next);
            self.queue.push(next, component);
        }
    }

    fn placed(&mut self, index: usize) -> &mut Placed {
        &mut self.middleboxes.as_mut().expect("middleboxes").all[index]
    }

    /// The next hop of a packet whose destination was changed to the sender of the packets with next hop `like`.
    fn route_back(&mut self, index: usize, packet: &Packet, like: Next) -> Next {
        let to = InterfaceAddress::of(packet.destination);
        let Some((end, to)) = self.sender_at(like).zip(to) else { return UNREACHABLE };
        let hash = self.flow_hash(packet);
        if let Some(&start) = self.placed(index).back.get(&(to, end, hash)) {
            return start;
        }
        let node = self.placed(index).node;
        let start = match self.network.route_from(node, to, hash) {
            Some(route) => self.add_route(&route, end),
            None => UNREACHABLE,
        };
        self.placed(index).back.insert((to, end, hash), start);
        start
    }

    /// Sends a packet from the node of a middlebox.
    fn emit(&mut self, now: Time, next: Next, packet: Packet) {
        let mut frame = PacketRef::of(0, &packet);
        frame.flow = if self.needs_flow_hash { flow_of(&packet) } else { 0 };
        frame.id = self.slab.insert(packet);
        if self.encoding.is_some() {
            let sender = self.sender_at(next);
            self.encode(now, sender, frame.id);
        }
        frame.next = next;
        self.offer(now, self.hops[next as usize], frame.onwards());
    }
}
