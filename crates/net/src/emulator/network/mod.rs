//! The emulated network without a clock: the caller passes each packet with the current time, and gets delivered
//! packets with their times of arrival.

mod source_routes;

use super::capture::Tap;
use super::middleboxes::{Arrival, Hop, Middleboxes, Translations};
use super::packet::RawPacket;
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_middlebox::network_control::{ControlRouter, Way};
use anabranch_middlebox::source_route::SourceRouter;
use anabranch_netem::network::BuildError;
use anabranch_netem::{
    DropCause, FlowHash, Frame, Interface, InterfaceAddress, IpVersion, Link, Network, Totals,
};
use anabranch_scenario::Scenario;
use anabranch_scenario::model::{Event, LinkEvent, Subject};
use anabranch_scenario::result::{LinkResult, Measured, MiddleboxResult};
use anabranch_wire::icmp::{Message, Quote, may_be_answered};
use anabranch_wire::ip::protocol;
use anabranch_wire::{Body, Ecn, Packet};
use core::cmp::Reverse;
use core::net::IpAddr;
use std::collections::{BTreeMap, BinaryHeap};

/// Marks the end of a route.
const END_OF_ROUTE: u32 = u32::MAX;

/// Maximum number of unused packet buffers that are kept: enough for a large bandwidth-delay product.
const MAX_SPARE_BUFFERS: usize = 4096;

/// A packet that has reached its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Time of arrival, which may be in the past.
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
    /// Time of the direction's event in the queue, if there is one. Its events at other times are stale.
    due: Option<Time>,
    /// True if a packet too large for the direction is answered with an ICMP error.
    answers: bool,
    baseline: Totals,
}

/// A scenario's links, routers and events over packets of any hosts.
///
/// The driver calls [`advance`](Self::advance) up to the present time, passes in the hosts' packets by
/// [`send`](Self::send), and sleeps until [`next_timeout`](Self::next_timeout). Due events are processed with
/// their own time, in order of time and, at equal times, events of the scenario before the links in their
/// order, as in a simulation. A late call delays deliveries, but does not change any decision of a queue or a
/// link. So the same packets at the same times are delivered, marked and dropped as in a simulation of the
/// same seed.
#[derive(Debug)]
pub struct EmulatedNetwork {
    network: Network,
    directions: Vec<Direction>,
    middleboxes: Option<Middleboxes>,
    /// Events of components: the directions, followed by the middleboxes.
    queue: BinaryHeap<Reverse<(Time, u32)>>,
    /// Index of the first hop of a flow's route between two interfaces, if there is one.
    routes: BTreeMap<(Interface, InterfaceAddress, FlowHash), Option<u32>>,
    /// Routes of ICMP errors and of packets from middleboxes. Key: a direction, at whose first node the route begins,
    /// the destination address and the flow hash. Value: index of the first hop; `None` if there is no route.
    routes_from_nodes: BTreeMap<(u32, InterfaceAddress, FlowHash), Option<u32>>,
    /// Index of the first hop of each stored route.
    stored: BTreeMap<Vec<Interface>, u32>,
    /// True if routers choose among several routes by the hash of a packet's flow.
    routes_by_flow: bool,
    /// Routers that choose the routes of paths.
    routers: BTreeMap<usize, ControlRouter>,
    /// All routers, for packets with a source route.
    source_routers: BTreeMap<usize, SourceRouter>,
    /// Concatenated routes, each followed by [`END_OF_ROUTE`].
    hops: Vec<u32>,
    events: Vec<Event>,
    /// Index of the next event.
    next_event: usize,
    /// Number of new addresses of each link.
    generations: Vec<u8>,
    warmup: Option<Time>,
    measured_since: Time,
    unreachable: u64,
    spare: Vec<Vec<u8>>,
    tap: Option<Tap>,
    /// Whether each direction ends on another machine; empty if all nodes are on this one.
    departures: Vec<bool>,
}

impl EmulatedNetwork {
    /// The network of a scenario, whose random streams derive from `seed`.
    ///
    /// # Errors
    ///
    /// If links and flows do not form a network.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, BuildError> {
        let rng = Rng::new(seed);
        let mut network = scenario.real_network()?;
        network.set_seed(seed);
        let source_routers = scenario.source_routers(&mut network);
        let routes_by_flow = network.has_alternatives();
        let routers = scenario.control_routers(&network);
        let mut directions = Vec::with_capacity(2 * scenario.links.len());
        for link in &scenario.links {
            let share = rng.fork(&format!("link.{}.offset", link.name)).unit();
            for (model, direction) in [(&link.forward, "forward"), (&link.reverse, "reverse")] {
                // The random streams are those of the links in a simulation.
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
            directions,
            middleboxes: Middleboxes::of(scenario),
            queue: BinaryHeap::new(),
            routes: BTreeMap::new(),
            routes_from_nodes: BTreeMap::new(),
            stored: BTreeMap::new(),
            routes_by_flow,
            routers,
            source_routers,
            hops: Vec::new(),
            events: scenario.events.clone(),
            next_event: 0,
            generations: vec![0; scenario.links.len()],
            warmup: Some(Time::ZERO + scenario.warmup),
            measured_since: Time::ZERO + scenario.warmup,
            unreachable: 0,
            spare: Vec::new(),
            tap: None,
            departures: Vec::new(),
        })
    }

    /// Sets the directions, by [`Interface::index`], whose packets are delivered at their ends for transfer to another
    /// machine, which continues with [`arrive`](Self::arrive).
    pub fn set_departures(&mut self, departures: Vec<bool>) {
        self.departures = departures;
    }

    /// Starts a capture of every packet that passes an end of a link.
    pub fn start_capture(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// Removes and returns the capture, so that the caller can finish it.
    pub fn take_capture(&mut self) -> Option<Tap> {
        self.tap.take()
    }

    /// True if writing the capture has failed.
    pub fn is_tap_broken(&self) -> bool {
        self.tap.as_ref().is_some_and(Tap::is_broken)
    }

    /// Nodes and routes.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Packets sent to addresses without a route.
    pub const fn unreachable(&self) -> u64 {
        self.unreachable
    }

    /// Sends a packet of a host from one of its interfaces. Data that is not an IP packet is dropped.
    ///
    /// # Panics
    ///
    /// In tests, if events before `now` have not been processed.
    pub fn send(&mut self, now: Time, from: Interface, bytes: Vec<u8>) {
        match RawPacket::new(bytes) {
            Ok(packet) => self.send_packet(now, from, packet),
            Err(bytes) => self.recycle(bytes),
        }
    }

    /// Like [`send`](Self::send), for a parsed packet.
    ///
    /// # Panics
    ///
    /// In tests, if events before `now` have not been processed.
    pub fn send_packet(&mut self, now: Time, from: Interface, packet: RawPacket) {
        debug_assert!(self.next_timeout().is_none_or(|due| due > now), "advance() must be called first");
        let destination = packet.destination();
        // Multicast packets come from a host's kernel, which searches for routers and neighbours. No node of the
        // network answers them.
        if destination.is_multicast() {
            return self.recycle(packet.into_bytes());
        }
        let to = self.address_of(destination);
        let hash = self.route_hash(&packet);
        if let Some(start) = to.and_then(|to| self.route((from, to), hash)) {
            self.offer(now, start, packet);
        } else {
            self.unreachable += 1;
            self.recycle(packet.into_bytes());
        }
    }

    /// Continues with a packet that has reached the end of a direction on another machine: it is delivered or forwarded.
    /// Data that is not an IP packet, or too short for its header, is dropped.
    ///
    /// # Panics
    ///
    /// In tests, if events before `now` have not been processed.
    pub fn arrive(
        &mut self,
        now: Time,
        direction: Interface,
        bytes: Vec<u8>,
        deliver: &mut impl FnMut(Arrived),
    ) {
        debug_assert!(self.next_timeout().is_none_or(|due| due > now), "advance() must be called first");
        let mut packet = match RawPacket::new(bytes) {
            Ok(packet) => packet,
            Err(bytes) => return self.recycle(bytes),
        };
        let to = self.address_of(packet.destination());
        let hash = self.route_hash(&packet);
        let Some(start) = to.and_then(|to| self.route((direction, to), hash)) else {
            self.unreachable += 1;
            return self.recycle(packet.into_bytes());
        };
        // The direction itself is the first hop of the route.
        packet.next = start + 1;
        self.forward(now, direction.0, packet, deliver);
    }

    /// The time of the next event.
    pub fn next_timeout(&self) -> Option<Time> {
        let links = self.queue.peek().map(|&Reverse((due, _))| due);
        [links, self.next_event_time()].into_iter().flatten().min()
    }

    /// Processes all events until `now`, and passes arrivals at hosts to `deliver`.
    pub fn advance(&mut self, now: Time, deliver: &mut impl FnMut(Arrived)) {
        while let Some(due) = self.next_timeout().filter(|&due| due <= now) {
            if self.next_event_time() == Some(due) {
                self.apply_next_event(due);
                continue;
            }
            let Some(Reverse((_, direction))) = self.queue.pop() else { return };
            if let Some(index) = (direction as usize).checked_sub(self.directions.len()) {
                self.middlebox_due(due, index);
                continue;
            }
            let state = &mut self.directions[direction as usize];
            if state.due != Some(due) {
                continue;
            }
            state.due = None;
            let departs = self.departures.get(direction as usize).is_some_and(|&departs| departs);
            while let Some(packet) = self.directions[direction as usize].link.take(due) {
                if departs {
                    deliver(Arrived { at: due, to: Interface(direction).opposite(), packet });
                } else {
                    self.forward(due, direction, packet, deliver);
                }
            }
            self.update_direction(direction);
        }
    }

    /// An empty buffer for the next packet.
    pub fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Takes a buffer back for further packets.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < MAX_SPARE_BUFFERS {
            self.spare.push(buffer);
        }
    }

    /// Results of the links until `now`, in the order of the scenario.
    pub fn links(&mut self, now: Time, scenario: &Scenario) -> Vec<LinkResult> {
        let measured = Measured { since: self.measured_since, until: now };
        let results = self.directions.iter_mut().enumerate().map(|(index, direction)| {
            let totals = direction.link.totals(now);
            measured.link(scenario, Interface(index as u32), &totals, &direction.baseline)
        });
        results.collect()
    }

    /// Results of the middleboxes until now, in the order of the scenario.
    pub fn middleboxes(&self) -> Vec<MiddleboxResult> {
        self.middleboxes.as_ref().map(Middleboxes::results).unwrap_or_default()
    }

    /// Addresses and ports that translators have changed. Later changes are added to this value, too.
    pub fn translations(&self) -> Translations {
        self.middleboxes.as_ref().map(Middleboxes::translations).unwrap_or_default()
    }

    /// Packets and bytes in the queue of each direction.
    pub fn queued(&mut self, now: Time) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.directions.iter_mut().map(move |direction| direction.link.queued(now))
    }

    /// Time of the scenario's next event or of the start of measuring, whichever is earlier.
    fn next_event_time(&self) -> Option<Time> {
        let event = self.events.get(self.next_event).map(|event| event.at);
        [event, self.warmup].into_iter().flatten().min()
    }

    /// Applies the scenario's next event, or starts measuring if no event is due.
    fn apply_next_event(&mut self, now: Time) {
        let Some(event) = self.events.get(self.next_event).filter(|event| event.at <= now) else {
            self.warmup = None;
            for direction in &mut self.directions {
                direction.baseline = direction.link.totals(now);
                direction.link.restart_maxima(now);
            }
            return;
        };
        self.next_event += 1;
        let event = event.clone();
        self.apply(now, &event);
    }

    /// Applies a change at the present time, in addition to the scenario's events.
    ///
    /// # Panics
    ///
    /// In tests, if events before `now` have not been processed.
    pub fn apply(&mut self, now: Time, event: &Event) {
        debug_assert!(self.next_timeout().is_none_or(|due| due >= now), "advance() must be called first");
        // Changes of flows concern the kernels of the hosts, not the network.
        let Subject::Link(LinkEvent { link, directions, renumbers, changes }) = &event.subject else {
            return;
        };
        let (link, renumbers) = (*link, *renumbers);
        self.generations[link] = self.generations[link].saturating_add(u8::from(renumbers));
        for change in changes {
            for end in directions.ends() {
                let direction = Interface::new(link, end);
                self.directions[direction.index()].link.change(now, change);
                self.update_direction(direction.0);
            }
        }
    }

    /// The interface's address that has this value now.
    fn address_of(&self, value: IpAddr) -> Option<InterfaceAddress> {
        let (address, generation) = InterfaceAddress::with_generation(value)?;
        let is_present = address.ip(generation) == value
            && self.generations.get(address.link()) == Some(&generation)
            && self.network.has(address);
        is_present.then_some(address)
    }

    /// Processes a packet that has reached the end of a direction.
    fn forward(&mut self, now: Time, direction: u32, packet: RawPacket, deliver: &mut impl FnMut(Arrived)) {
        if let Some(tap) = &mut self.tap {
            tap.passed(now, Interface(direction).opposite(), &packet);
        }
        let Some(packet) = self.follow_source_route(direction, packet) else { return };
        let middlebox = self.middleboxes.as_ref().and_then(|middleboxes| middleboxes.at(direction));
        if let Some(index) = middlebox {
            return self.pass_to_middlebox(now, (direction, index), packet);
        }
        if self.hops[packet.next as usize] == END_OF_ROUTE {
            let to = Interface(direction).opposite();
            deliver(Arrived { at: now, to, packet });
        } else {
            let next = packet.next;
            let (next, packet) =
                if self.routers.is_empty() { (next, packet) } else { self.pass_to_router(now, next, packet) };
            self.offer(now, next, packet);
        }
    }

    /// Processes a packet that has reached the node of a middlebox.
    fn pass_to_middlebox(&mut self, now: Time, (direction, index): (u32, usize), packet: RawPacket) {
        let hop = self.hops[packet.next as usize];
        let leaves_by = (hop != END_OF_ROUTE).then_some(Interface(hop));
        let Self { middleboxes: Some(middleboxes), generations, .. } = self else { return };
        let arrival = Arrival { packet, direction: Interface(direction), leaves_by };
        let sent = middleboxes.pass(now, arrival, generations);
        self.send_from_middlebox(now, index, sent);
    }

    /// Processes the timer event of a middlebox.
    fn middlebox_due(&mut self, now: Time, index: usize) {
        let Some(middleboxes) = &mut self.middleboxes else { return };
        let sent = middleboxes.due(now, index);
        self.send_from_middlebox(now, index, sent);
    }

    /// Sends packets from the node of a middlebox, and schedules its next event.
    fn send_from_middlebox(&mut self, now: Time, index: usize, sent: Vec<(RawPacket, Hop)>) {
        let Some(middleboxes) = &self.middleboxes else { return };
        let here = middleboxes.interface(index).0;
        for (packet, hop) in sent {
            let next = match hop {
                Hop::Stored(next) => Some(next),
                Hop::ToDestination => {
                    let hash = self.route_hash(&packet);
                    let to = self.address_of(packet.destination());
                    to.and_then(|to| self.route_from(here, to, hash))
                }
            };
            // A packet for the router itself is dropped.
            if let Some(next) = next.filter(|&next| self.hops[next as usize] != END_OF_ROUTE) {
                self.offer(now, next, packet);
            } else {
                self.unreachable += 1;
                self.recycle(packet.into_bytes());
            }
        }
        let component = (self.directions.len() + index) as u32;
        if let Some(due) = self.middleboxes.as_mut().and_then(|middleboxes| middleboxes.schedule(index)) {
            self.queue.push(Reverse((due, component)));
        }
    }

    /// Passes a packet to the router at which it has arrived, if that has network control. Returns the index of its next hop.
    fn pass_to_router(&mut self, now: Time, next: u32, mut packet: RawPacket) -> (u32, RawPacket) {
        let current = Interface(self.hops[next as usize]);
        let node = self.network.owner(current);
        let Some(router) = self.routers.get_mut(&node) else {
            return (next, packet);
        };
        let to = InterfaceAddress::of(packet.destination());
        let flow = packet.flow_key();
        let chosen = match (flow, to, packet.request()) {
            (Some(flow), Some(to), Some(mut request)) => {
                let directions = &mut self.directions;
                let way = |by: Interface| Way::of(by, &mut directions[by.index()].link, now);
                let ways: Vec<_> = self.network.all_ways(node, to).into_iter().map(way).collect();
                (!ways.is_empty()).then(|| {
                    let by = router.choose(now, flow, &mut request, &ways);
                    packet.replace_request(request);
                    by
                })
            }
            (Some(flow), ..) => router.way_of(now, &flow),
            _ => None,
        };
        let other = chosen.filter(|&by| by != current).zip(to);
        let hash = self.route_hash(&packet);
        let start = other.and_then(|(by, to)| self.route((by, to), hash)).unwrap_or(next);
        let by = Interface(self.hops[start as usize]);
        if let Some(router) = self.routers.get_mut(&node) {
            router.forwarded(now, by, packet.wire_len());
        }
        (start, packet)
    }

    /// The hash by which routers choose among several routes; the same for all packets if there are none.
    fn route_hash(&self, packet: &RawPacket) -> FlowHash {
        if self.routes_by_flow { packet.route_hash() } else { FlowHash::default() }
    }

    /// Offers a packet to the direction at this index of its route.
    fn offer(&mut self, now: Time, place: u32, mut packet: RawPacket) {
        let direction = self.hops[place as usize];
        packet.next = place + 1;
        if let Some(tap) = &mut self.tap {
            tap.passed(now, Interface(direction), &packet);
        }
        let link = &mut self.directions[direction as usize].link;
        let copy = link.duplicates_next().then(|| packet.clone());
        link.offer(now, packet);
        if let Some(copy) = copy {
            link.offer(now, copy);
        }
        self.update_direction(direction);
    }

    /// Schedules the next event of a direction and processes its dropped packets.
    fn update_direction(&mut self, direction: u32) {
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

    /// Sends an error to the sender of a packet that is too large for a direction (RFC 1191 §4, RFC 4443
    /// §3.2). The error is sent like any packet, from the router's interface at that link. ICMP messages are
    /// not answered.
    fn answer_too_big(&mut self, at: Time, direction: u32, packet: &RawPacket) {
        let source = packet.source();
        if matches!(packet.protocol(), protocol::ICMP | protocol::ICMPV6) || !may_be_answered(source) {
            return;
        }
        let to = self.address_of(source);
        // An error takes the route of the packet that it quotes, so it gets the hash of that packet.
        let hash = if self.routes_by_flow { packet.error_hash() } else { FlowHash::default() };
        let Some(start) = to.and_then(|to| self.route_from(direction, to, hash)) else {
            self.unreachable += 1;
            return;
        };
        let mtu = self.directions[direction as usize].link.mtu();
        let error = Packet {
            source: Interface(direction).address(IpVersion::of(source)),
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

    /// Index of the first hop of the route from an interface, which the host has selected, to an address.
    fn route(&mut self, (from, to): (Interface, InterfaceAddress), hash: FlowHash) -> Option<u32> {
        if let Some(&start) = self.routes.get(&(from, to, hash)) {
            return start;
        }
        let start = self.network.route_out(from, to, hash).map(|route| self.store_route(route));
        self.routes.insert((from, to, hash), start);
        start
    }

    /// Index of the first hop of the route to an address from the node at the beginning of a direction.
    fn route_from(&mut self, direction: u32, to: InterfaceAddress, hash: FlowHash) -> Option<u32> {
        if let Some(&start) = self.routes_from_nodes.get(&(direction, to, hash)) {
            return start;
        }
        let node = self.network.owner(Interface(direction));
        let start = self.network.route_from(node, to, hash).map(|route| self.store_route(route));
        self.routes_from_nodes.insert((direction, to, hash), start);
        start
    }

    /// Stores a route, once; returns the index of its first hop.
    fn store_route(&mut self, route: Vec<Interface>) -> u32 {
        if let Some(&start) = self.stored.get(&route) {
            return start;
        }
        let start = self.hops.len() as u32;
        self.hops.extend(route.iter().map(|hop| hop.0));
        self.hops.push(END_OF_ROUTE);
        self.stored.insert(route, start);
        start
    }
}
