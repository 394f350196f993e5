//! Middleboxes of the emulated network, which are those of the simulator.

mod held;
mod translations;

pub use translations::Translations;

use super::packet::RawPacket;
use anabranch_base::time::Time;
use anabranch_middlebox::{Middlebox, Onward, Outcome, Transit};
use anabranch_netem::{Interface, InterfaceAddress, IpVersion};
use anabranch_scenario::result::MiddleboxResult;
use anabranch_scenario::{MiddleboxPlaces, Scenario};
use anabranch_wire::{Body, Packet};
use held::{Held, Next};

/// The next hop of a packet that a middlebox has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    /// Index of the next hop in the stored routes.
    Stored(u32),
    /// The route from the node of the middlebox to the packet's destination.
    ToDestination,
}

/// A packet at the end of a direction that leads to a middlebox.
pub(super) struct Arrival {
    pub packet: RawPacket,
    pub direction: Interface,
    /// The interface by which the packet leaves the node; `None` if it is addressed to the node itself.
    pub leaves_by: Option<Interface>,
}

/// A middlebox at its node.
#[derive(Debug)]
struct Placed {
    middlebox: Middlebox<Next>,
    held: Held,
    result: MiddleboxResult,
    drops_unknown: bool,
    /// The time of the middlebox's scheduled event.
    due: Option<Time>,
}

/// The middleboxes of a network.
#[derive(Debug)]
pub(super) struct Middleboxes {
    all: Vec<Placed>,
    places: MiddleboxPlaces,
    translations: Translations,
}

impl Middleboxes {
    /// The middleboxes of a scenario; `None` without any.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        let places = MiddleboxPlaces::of(scenario)?;
        let placed = scenario.middleboxes.iter().map(|declared| Placed {
            middlebox: Middlebox::new(&declared.does),
            held: Held::default(),
            result: MiddleboxResult {
                node: declared.node.clone(),
                kind: declared.does.kind().name.to_owned(),
                packets: 0,
                changed: 0,
                dropped: 0,
            },
            drops_unknown: declared.does.has_an_inside(),
            due: None,
        });
        let (all, translations) = (placed.collect(), Translations::default());
        Some(Self { all, places, translations })
    }

    /// Addresses and ports that translators have changed.
    pub fn translations(&self) -> Translations {
        self.translations.clone()
    }

    /// Results since the start, in the order of the scenario.
    pub fn results(&self) -> Vec<MiddleboxResult> {
        self.all.iter().map(|placed| placed.result.clone()).collect()
    }

    /// Index of the middlebox at the end of a direction, if there is one.
    pub fn at(&self, direction: u32) -> Option<usize> {
        self.places.at(Interface(direction)).map(|(index, _)| index)
    }

    /// An interface of the node of a middlebox.
    pub fn interface(&self, index: usize) -> Interface {
        self.places.first_to(index).expect("the node has a link").opposite()
    }

    /// Passes a packet to the middlebox at the end of its direction; returns the packets that it forwards.
    pub fn pass(&mut self, now: Time, arrival: Arrival, generations: &[u8]) -> Vec<(RawPacket, Hop)> {
        let Arrival { packet: raw, direction, leaves_by } = arrival;
        let (index, inside) = self.places.at(direction).expect("the direction leads to a middlebox");
        let crosses = self.places.crosses(inside, leaves_by);
        let placed = &mut self.all[index];
        placed.result.packets += 1;
        let onward = raw.next;
        let Some(packet) = parsed(&raw) else {
            // A fragment, or a packet of an unknown protocol, which no middlebox can change or assign to a flow.
            if crosses && placed.drops_unknown {
                placed.result.dropped += 1;
                return Vec::new();
            }
            return vec![(raw, Hop::Stored(onward))];
        };
        let (packet, number) = placed.held.insert(raw, packet);
        let version = IpVersion::of(packet.source);
        let address = |at: Interface| InterfaceAddress::first(at, version).ip(generations[at.link()]);
        let transit = Transit {
            packet,
            inside,
            crosses,
            arrives_at: address(direction.opposite()),
            leaves_from: leaves_by.map(address),
            onward: Next { place: onward, number },
        };
        let mut outcome = Outcome::default();
        placed.middlebox.pass(now, transit, &mut outcome);
        if outcome.sent.iter().any(|(_, onward)| matches!(onward, Onward::Back(_))) {
            // A middlebox that answers or translates a packet does not keep it.
            return self.depart(index, outcome, Some(number));
        }
        self.depart(index, outcome, None)
    }

    /// Processes the timer event of a middlebox; returns the packets that it forwards.
    pub fn due(&mut self, now: Time, index: usize) -> Vec<(RawPacket, Hop)> {
        let placed = &mut self.all[index];
        if placed.due != Some(now) {
            // The middlebox has requested an earlier event since this one was scheduled.
            return Vec::new();
        }
        placed.due = None;
        let mut outcome = Outcome::default();
        placed.middlebox.due(now, &mut outcome);
        self.depart(index, outcome, None)
    }

    /// The time of a middlebox's next event, if that has to be scheduled.
    pub fn schedule(&mut self, index: usize) -> Option<Time> {
        let placed = &mut self.all[index];
        let next = placed.middlebox.next_event()?;
        if placed.due.is_some_and(|due| due <= next) {
            return None;
        }
        placed.due = Some(next);
        Some(next)
    }

    /// Writes the packets that the middlebox forwards. Deletes the stored packets that have left it, and the
    /// one with the number `gone`.
    fn depart(&mut self, index: usize, outcome: Outcome<Next>, gone: Option<u64>) -> Vec<(RawPacket, Hop)> {
        let Self { all, translations, .. } = self;
        let Placed { held, result, .. } = &mut all[index];
        result.changed += outcome.changed;
        result.dropped += outcome.dropped.len() as u64;
        let mut sent = Vec::with_capacity(outcome.sent.len());
        for (packet, onward) in &outcome.sent {
            let (hop, next) = match *onward {
                Onward::As(next) => (Hop::Stored(next.place), Some(next)),
                Onward::Back(_) => (Hop::ToDestination, None),
            };
            let arrived = next.and_then(|next| held.packet(next.number));
            if let Some(arrived) = arrived.filter(|arrived| arrived.source != packet.source) {
                translations.add(packet, arrived);
            }
            match held.write(packet, next) {
                Some(raw) => sent.push((raw, hop)),
                None => result.dropped += 1,
            }
        }
        let dropped = outcome.dropped.into_iter().map(|(packet, next)| (packet, Some(next.number)));
        let departed = outcome.sent.into_iter().map(|(packet, onward)| match onward {
            Onward::As(next) => (packet, Some(next.number)),
            Onward::Back(_) => (packet, gone),
        });
        for (packet, number) in dropped.chain(departed) {
            held.forget(packet, number);
        }
        sent
    }
}

/// The packet that these bytes contain, with a finished checksum.
fn parsed(raw: &RawPacket) -> Option<Packet> {
    if raw.unfinished().is_none() {
        return Packet::parse(raw.bytes()).ok();
    }
    let mut bytes = raw.bytes().to_vec();
    raw.finish_checksum(&mut bytes);
    Packet::parse(&bytes).ok()
}

/// The source address and port of a TCP segment.
fn tcp_source(packet: &Packet) -> Option<core::net::SocketAddr> {
    match &packet.body {
        Body::Tcp(segment) => Some((packet.source, segment.source_port).into()),
        _ => None,
    }
}
