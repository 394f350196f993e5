//! The emulated network without a clock: packets are handed in with the time, and come out with theirs.

use super::capture::Tap;
use super::packet::RawPacket;
use core::cmp::Reverse;
use multipath::rng::Rng;
use multipath::time::Time;
use netem::network::BuildError;
use netem::{DropCause, Interface, IpVersion, Link, Network, Totals};
use scenario::Scenario;
use scenario::model::{Directions, Event};
use scenario::result::{LinkResult, Measured};
use std::collections::{BTreeMap, BinaryHeap};
use wire::icmp::{Message, Quote, may_be_answered};
use wire::ip::protocol;
use wire::{Body, Ecn, Packet};

/// Behind the last hop of a route.
const DELIVERY: u32 = u32::MAX;

/// Buffers of packets that are gone, kept for those to come: what a large bandwidth-delay product holds.
const SPARE_BUFFERS: usize = 4096;

/// A packet at the end of its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// When it arrived, which may have passed by now.
    pub at: Time,
    /// The host's interface.
    pub to: Interface,
    /// The packet; [`EmulatedNetwork::recycle`] takes its bytes back.
    pub packet: RawPacket,
}

/// A direction of a link.
#[derive(Debug)]
struct Direction {
    link: Link<RawPacket>,
    /// Its event in the queue, if there is one; others of it there are stale.
    due: Option<Time>,
    /// Packets that are too large for it are answered.
    answers: bool,
    baseline: Totals,
}

/// A scenario's links, routers and events over packets of any hosts.
///
/// Driven in this order: [`advance`](Self::advance) to the time, hand in what the hosts [`send`](Self::send), sleep until
/// [`next_timeout`](Self::next_timeout). What is due is done as of its own moment, in the order of the moments and, at one
/// moment, of what the scenario orders and then of the links, as in a simulation: being called late delays what comes out,
/// and no decision of a queue or a link. So the same packets at the same times have the same fate as in a simulation of the
/// same seed.
#[derive(Debug)]
pub struct EmulatedNetwork {
    network: Network,
    version: IpVersion,
    directions: Vec<Direction>,
    /// When directions have something to do.
    queue: BinaryHeap<Reverse<(Time, u32)>>,
    /// Where the route between two interfaces begins in `hops`, if there is one.
    routes: BTreeMap<(Interface, Interface), Option<u32>>,
    /// Where the way of a direction's errors to an interface begins, if there is one.
    error_routes: BTreeMap<(u32, Interface), Option<u32>>,
    /// Routes one after the other, each with [`DELIVERY`] behind it.
    hops: Vec<u32>,
    events: Vec<Event>,
    /// Index of the next event.
    next_event: usize,
    warmup: Option<Time>,
    measured_since: Time,
    unreachable: u64,
    spare: Vec<Vec<u8>>,
    tap: Option<Tap>,
}

impl EmulatedNetwork {
    /// The network of a scenario, whose random streams come from `seed`.
    ///
    /// # Errors
    /// If links and flows do not make a network.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, BuildError> {
        let rng = Rng::new(seed);
        let network = scenario.real_network()?;
        let mut directions = Vec::with_capacity(2 * scenario.links.len());
        for link in &scenario.links {
            let share = rng.fork(&format!("link.{}.offset", link.name)).unit();
            for (model, direction) in [(&link.forward, "forward"), (&link.reverse, "reverse")] {
                // The streams of a simulation's links.
                let rng = rng.fork(&format!("link.{}.{direction}", link.name));
                directions.push(Direction {
                    link: Link::new(&model.with_offset(share), &rng),
                    due: None,
                    answers: model.icmp,
                    baseline: Totals::default(),
                });
            }
        }
        Ok(Self {
            network,
            version: scenario.ip,
            directions,
            queue: BinaryHeap::new(),
            routes: BTreeMap::new(),
            error_routes: BTreeMap::new(),
            hops: Vec::new(),
            events: scenario.events.clone(),
            next_event: 0,
            warmup: Some(Time::ZERO + scenario.warmup),
            measured_since: Time::ZERO + scenario.warmup,
            unreachable: 0,
            spare: Vec::new(),
            tap: None,
        })
    }

    /// From now on every packet that passes an end of a link is written to a capture.
    pub fn tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// The capture, if there is one: it is to be ended, or cannot be written.
    pub fn untap(&mut self) -> Option<Tap> {
        self.tap.take()
    }

    /// Whether the capture cannot be written any more.
    pub fn is_tap_broken(&self) -> bool {
        self.tap.as_ref().is_some_and(Tap::is_broken)
    }

    /// Nodes and routes.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Packets sent to addresses that no route leads to.
    pub const fn unreachable(&self) -> u64 {
        self.unreachable
    }

    /// A host sends a packet from one of its interfaces. What is not an IP packet goes nowhere.
    ///
    /// # Panics
    /// In tests, if what is due before `now` has not been done.
    pub fn send(&mut self, now: Time, from: Interface, bytes: Vec<u8>) {
        match RawPacket::new(bytes) {
            Ok(packet) => self.send_packet(now, from, packet),
            Err(bytes) => self.recycle(bytes),
        }
    }

    /// As [`send`](Self::send), for what is a packet already.
    ///
    /// # Panics
    /// In tests, if what is due before `now` has not been done.
    pub fn send_packet(&mut self, now: Time, from: Interface, packet: RawPacket) {
        debug_assert!(self.next_timeout().is_none_or(|due| due > now), "advance comes first");
        let destination = packet.destination();
        // A host's stack looks for routers and neighbours, of which there are none.
        if destination.is_multicast() {
            return self.recycle(packet.into_bytes());
        }
        let to = Interface::of_address(destination).filter(|to| to.address(self.version) == destination);
        if let Some(start) = to.and_then(|to| self.route(from, to)) {
            self.offer(now, start, packet);
        } else {
            self.unreachable += 1;
            self.recycle(packet.into_bytes());
        }
    }

    /// When there is next something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        let links = self.queue.peek().map(|&Reverse((due, _))| due);
        [links, self.next_order()].into_iter().flatten().min()
    }

    /// Does all that is due until `now`; what arrives at hosts goes to `deliver`.
    pub fn advance(&mut self, now: Time, deliver: &mut impl FnMut(Arrived)) {
        while let Some(due) = self.next_timeout().filter(|&due| due <= now) {
            if self.next_order() == Some(due) {
                self.obey(due);
                continue;
            }
            let Some(Reverse((_, direction))) = self.queue.pop() else { return };
            let state = &mut self.directions[direction as usize];
            if state.due != Some(due) {
                continue;
            }
            state.due = None;
            while let Some(packet) = self.directions[direction as usize].link.take(due) {
                self.forward(due, direction, packet, deliver);
            }
            self.settle(direction);
        }
    }

    /// A buffer for the next packet, empty.
    pub fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Takes a buffer back for packets to come.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            self.spare.push(buffer);
        }
    }

    /// What the links have carried until `now`, in the order of the scenario.
    pub fn links(&mut self, now: Time, scenario: &Scenario) -> Vec<LinkResult> {
        let measured = Measured { since: self.measured_since, until: now };
        let results = self.directions.iter_mut().enumerate().map(|(index, direction)| {
            let totals = direction.link.totals(now);
            measured.link(scenario, Interface(index as u32), &totals, &direction.baseline)
        });
        results.collect()
    }

    /// Packets and bytes in the queue of each direction.
    pub fn queued(&mut self, now: Time) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.directions.iter_mut().map(move |direction| direction.link.queued(now))
    }

    /// When the scenario next orders something, or measuring begins.
    fn next_order(&self) -> Option<Time> {
        let event = self.events.get(self.next_event).map(|event| event.at);
        [event, self.warmup].into_iter().flatten().min()
    }

    /// Does the next thing that the scenario orders.
    fn obey(&mut self, now: Time) {
        let Some(event) = self.events.get(self.next_event).filter(|event| event.at <= now) else {
            self.warmup = None;
            for direction in &mut self.directions {
                direction.baseline = direction.link.totals(now);
                direction.link.restart_maxima(now);
            }
            return;
        };
        let (link, ends) = match event.directions {
            Directions::Both => (event.link, 0..2),
            Directions::Forward => (event.link, 0..1),
            Directions::Reverse => (event.link, 1..2),
        };
        let changes = event.changes.clone();
        self.next_event += 1;
        for change in &changes {
            for end in ends.clone() {
                let direction = Interface::new(link, end);
                self.directions[direction.index()].link.change(now, change);
                self.settle(direction.0);
            }
        }
    }

    /// A packet has come to the end of a direction.
    fn forward(&mut self, now: Time, direction: u32, packet: RawPacket, deliver: &mut impl FnMut(Arrived)) {
        if let Some(tap) = &mut self.tap {
            tap.passed(now, Interface(direction).opposite(), &packet);
        }
        if self.hops[packet.next as usize] == DELIVERY {
            let to = Interface(direction).opposite();
            deliver(Arrived { at: now, to, packet });
        } else {
            let next = packet.next;
            self.offer(now, next, packet);
        }
    }

    /// Hands a packet to the direction at this place of its route.
    fn offer(&mut self, now: Time, place: u32, mut packet: RawPacket) {
        let direction = self.hops[place as usize];
        packet.next = place + 1;
        if let Some(tap) = &mut self.tap {
            tap.passed(now, Interface(direction), &packet);
        }
        self.directions[direction as usize].link.offer(now, packet);
        self.settle(direction);
    }

    /// Schedules what a direction has to do and disposes of what it dropped.
    fn settle(&mut self, direction: u32) {
        let state = &mut self.directions[direction as usize];
        if let Some(next) = state.link.next_event()
            && state.due.is_none_or(|due| next < due)
        {
            state.due = Some(next);
            self.queue.push(Reverse((next, direction)));
        }
        for dropped in state.link.take_dropped().unwrap_or_default() {
            if let Some(tap) = &mut self.tap {
                tap.dropped(dropped.at, Interface(direction), (dropped.cause, &dropped.frame));
            }
            if dropped.cause == DropCause::Mtu && self.directions[direction as usize].answers {
                self.answer_too_big(dropped.at, direction, &dropped.frame);
            }
            self.recycle(dropped.frame.into_bytes());
        }
    }

    /// Tells the sender of a packet that it is too large for a direction (RFC 1191 §4, RFC 4443 §3.2). The error is a
    /// packet like any other, from the router's interface there. No ICMP message is answered with one.
    fn answer_too_big(&mut self, at: Time, direction: u32, packet: &RawPacket) {
        let source = packet.source();
        if matches!(packet.protocol(), protocol::ICMP | protocol::ICMPV6) || !may_be_answered(source) {
            return;
        }
        let to = Interface::of_address(source).filter(|to| to.address(self.version) == source);
        let Some(start) = to.and_then(|to| self.error_route(direction, to)) else {
            self.unreachable += 1;
            return;
        };
        let mtu = self.directions[direction as usize].link.mtu();
        let error = Packet {
            source: Interface(direction).address(self.version),
            destination: source,
            ecn: Ecn::NotEct,
            body: Body::Icmp(Box::new(Message::PacketTooBig {
                mtu,
                quote: Quote::of_bytes(packet.bytes(), packet.header_len()),
            })),
        };
        let mut bytes = self.buffer();
        error.emit(&mut bytes);
        if let Ok(error) = RawPacket::new(bytes) {
            self.offer(at, start, error);
        }
    }

    /// Where the route between two interfaces begins. By which of them a packet leaves its host has said.
    fn route(&mut self, from: Interface, to: Interface) -> Option<u32> {
        if let Some(&start) = self.routes.get(&(from, to)) {
            return start;
        }
        let start = self.network.route_out(from, to).map(|route| self.keep(&route));
        self.routes.insert((from, to), start);
        start
    }

    /// Where the way of a direction's errors to an interface begins.
    fn error_route(&mut self, direction: u32, to: Interface) -> Option<u32> {
        if let Some(&start) = self.error_routes.get(&(direction, to)) {
            return start;
        }
        let node = self.network.owner(Interface(direction));
        let start = self.network.route_from(node, to).map(|route| self.keep(&route));
        self.error_routes.insert((direction, to), start);
        start
    }

    /// Keeps a route; where it begins.
    fn keep(&mut self, route: &[Interface]) -> u32 {
        let start = self.hops.len() as u32;
        self.hops.extend(route.iter().map(|hop| hop.0));
        self.hops.push(DELIVERY);
        start
    }
}
