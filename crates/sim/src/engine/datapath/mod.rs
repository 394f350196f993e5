//! The links of a network, the packets on them, and the events that they and the hosts wait for.

mod end;
mod icmp;
mod lookahead;
mod middleboxes;
mod routes;

pub use middleboxes::{Middleboxes, Tally};
pub use routes::Routes;

pub use self::end::EndId;

use super::events::EventQueue;
use super::forwarding::{Around, ForwardingGraph, Role};
use super::link::{LookaheadLink, PacketRef, flow_of};
use super::slab::PacketSlab;
use crate::measure::digest::Digest;
use crate::report::capture::Capture;
use crate::scenario::Scenario;
use anabranch_base::RateLimit;
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_netem::{Change, DropCause, Dropped, Frame, Interface, Network};
use anabranch_wire::{Body, CheckError, Packet, Payload};
use std::collections::BTreeMap;

/// No route connects the two addresses.
const UNREACHABLE: u32 = u32::MAX;

/// When a link direction has something to do: a word, in which what is earlier is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due(u64);

impl Due {
    /// It needs no event: the end that it leads to is looking after it.
    const ATTENDED: Self = Self(0);
    /// Nothing is due.
    const NEVER: Self = Self(u64::MAX);

    /// It has an event at this moment.
    const fn at(time: Time) -> Self {
        Self(time.as_nanos().saturating_add(1))
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// A packet reached the end of a flow that it is addressed to; [`Datapath::packet`] shows it.
    Arrived(EndId, PacketRef),
    /// An end of a flow has something to do: it asked to be woken, or packets wait on its ingress links.
    Woken(EndId),
    /// Nothing that concerns a host.
    Nothing,
}

/// A link direction and when its next event is due.
#[derive(Debug)]
struct LinkState {
    due: Due,
    role: Role,
    link: LookaheadLink,
    /// Over everything dropped here. One digest a link: when a lazy link notices a drop depends on who looks at it, and at
    /// the end of a run [`Datapath::finish`] looks at all.
    drops: Digest,
    /// Packets that are too large for it are answered, so often.
    answers: Option<Box<RateLimit>>,
}

/// The links of a network, the packets on them, and all pending events.
#[derive(Debug)]
pub struct Datapath {
    queue: EventQueue,
    links: Vec<LinkState>,
    slab: PacketSlab,
    network: Network,
    graph: ForwardingGraph,
    sync_point: Time,
    /// Frames that reached the end of a direction.
    hops_done: u64,
    /// Routes one after the other, as component numbers: link directions, then the end of a flow that they lead to.
    hops: Vec<u32>,
    unreachable: u64,
    /// Encodes and re-parses every packet sent; the bytes of the last one.
    checking: Option<Vec<u8>>,
    capture: Option<Box<Capture>>,
    /// A queue asks for the flow of a packet.
    tells_flows_apart: bool,
    /// Nothing is done ahead of its time.
    in_order: bool,
    /// Where the errors of routers go: routes to ends of flows, by the direction that could not carry a packet, the end
    /// that sent it, and the interface from which it did.
    error_routes: BTreeMap<(u32, EndId, Interface), u32>,
    /// Datagrams that were dropped since somebody asked, by the end that sent them.
    lost: BTreeMap<EndId, Vec<Payload>>,
    failure: Option<Failure>,
    middleboxes: Option<Box<Middleboxes>>,
    /// Number of ends of flows.
    ends: u32,
}

/// Why a run cannot go on.
#[derive(Debug)]
pub enum Failure {
    /// A packet and its bytes disagree.
    Wire {
        /// When it was sent.
        at: Time,
        /// The end of the flow that sent it.
        from: EndId,
        /// How they disagree.
        error: CheckError,
    },
    /// By what is in a packet, its host would hand it to another connection.
    OtherConnection {
        /// When it arrived.
        at: Time,
        /// The end of the flow that it arrived at.
        to: EndId,
    },
    /// The capture cannot be written.
    Capture(std::io::Error),
}

impl Datapath {
    /// The links of a scenario. Others have to do with the ends `in_company` beside packets: these live in the order of time.
    pub fn new(scenario: &Scenario, mut network: Network, in_company: &[EndId], rng: &Rng) -> Self {
        let mut links = Vec::with_capacity(scenario.links.len() * 2);
        for link in &scenario.links {
            let share = rng.fork(&format!("link.{}.offset", link.name)).unit();
            for (model, direction) in [(&link.forward, "forward"), (&link.reverse, "reverse")] {
                let rng = rng.fork(&format!("link.{}.{direction}", link.name));
                links.push(LinkState {
                    due: Due::NEVER,
                    role: Role::Plain,
                    link: LookaheadLink::new(&model.with_offset(share), &rng),
                    drops: Digest::new(),
                    answers: model.icmp.then(|| Box::new(icmp::limit())),
                });
            }
        }
        let keeps_order: Vec<_> = links.iter().map(|state| state.link.keeps_order()).collect();
        let errors = icmp::routes(scenario, &mut network);
        let around = Around { keeps_order: &keeps_order, errors: &errors, in_company };
        let graph = ForwardingGraph::new(&mut network, scenario.connections().len(), &around);
        for (direction, state) in links.iter_mut().enumerate() {
            state.role = graph.role(direction as u32);
        }
        let tells_flows_apart = links.iter().any(|state| state.link.asks_for_flows());
        let middleboxes = Middleboxes::of(scenario, &network);
        let mut datapath = Self {
            queue: EventQueue::new(),
            links,
            slab: PacketSlab::new(),
            network,
            graph,
            sync_point: Time::ZERO,
            hops_done: 0,
            hops: Vec::new(),
            unreachable: 0,
            checking: None,
            capture: None,
            tells_flows_apart,
            in_order: false,
            error_routes: BTreeMap::new(),
            lost: BTreeMap::new(),
            failure: None,
            middleboxes,
            ends: 2 * scenario.connections().len() as u32,
        };
        if datapath.middleboxes.is_some() {
            // They change what passes, and when it does.
            datapath.keep_order();
        }
        datapath
    }

    /// From now on every packet is encoded and parsed again as it is sent.
    pub fn check_wire(&mut self) {
        self.checking = Some(Vec::new());
    }

    /// From now on every packet is written to a capture, and nothing is done ahead of its time.
    pub fn capture(&mut self, capture: Capture) {
        self.capture = Some(Box::new(capture));
        self.keep_order();
    }

    /// Whether every packet is checked.
    pub const fn is_checking(&self) -> bool {
        self.checking.is_some()
    }

    /// An end of a flow takes a packet for a connection, and this is what its host has `found` by what is in it. It may find
    /// none: a path of the connection has ended, and what is late on it is the connection's to deal with.
    pub fn check_connection<C: PartialEq>(&mut self, at: Time, to: EndId, (own, found): (C, Option<C>)) {
        if found.is_some_and(|found| found != own) && self.failure.is_none() {
            self.failure = Some(Failure::OtherConnection { at, to });
        }
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// What the output answers.
    pub fn finish_capture(&mut self) -> std::io::Result<()> {
        self.capture.take().map_or(Ok(()), |capture| capture.finish())
    }

    /// The network.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Why the run cannot go on, if so.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// The direction of a link that leaves from an interface.
    pub fn link(&mut self, from: Interface) -> &mut LookaheadLink {
        &mut self.links[from.index()].link
    }

    /// The middleboxes, if there are any.
    pub fn middleboxes(&self) -> Option<&Middleboxes> {
        self.middleboxes.as_deref()
    }

    /// The number of link directions.
    pub fn directions(&self) -> usize {
        self.links.len()
    }

    /// Packets sent to addresses that no route leads to.
    pub const fn unreachable(&self) -> u64 {
        self.unreachable
    }

    /// How many times a packet has reached the end of a link.
    pub const fn hops_done(&self) -> u64 {
        self.hops_done
    }

    /// The most packets that were kept at the same time: those on the way, and those that were sent ahead of time.
    pub fn packets_high_water(&self) -> usize {
        self.slab.high_water()
    }

    /// The run is over: every link catches up, and what it dropped is counted.
    pub fn finish(&mut self, end: Time) {
        for direction in 0..self.links.len() {
            let link = &mut self.links[direction].link;
            link.advance(end);
            if let Some(dropped) = link.take_dropped() {
                self.dispose(direction as u32, &dropped);
            }
        }
    }

    /// Adds what was dropped, link by link.
    pub fn digest_drops(&self, digest: &mut Digest) {
        for state in &self.links {
            digest.word(state.drops.value());
        }
        if let Some(middleboxes) = &self.middleboxes {
            middleboxes.digest(digest);
        }
    }

    /// When the next event is due.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        self.queue.peek().map(|(time, _)| time)
    }

    /// Deals with the next event.
    #[inline]
    pub fn step(&mut self) -> Outcome {
        let Some((now, component)) = self.queue.peek() else { return Outcome::Nothing };
        if let Some(end) = self.end_of(component) {
            self.queue.pop();
            if end >= self.ends {
                self.middlebox_due(now, (end - self.ends) as usize);
                return Outcome::Nothing;
            }
            return Outcome::Woken(end);
        }
        let state = &mut self.links[component as usize];
        if state.due != Due::at(now) {
            // The link found something earlier to do since this was scheduled, or something later.
            self.queue.pop();
            return Outcome::Nothing;
        }
        match state.role {
            Role::LeadsTo(end) => {
                state.due = Due::NEVER;
                self.queue.pop();
                Outcome::Woken(end)
            }
            Role::Feeds => {
                state.due = Due::NEVER;
                self.queue.pop();
                state.link.advance(now);
                self.reschedule(component);
                Outcome::Nothing
            }
            Role::Plain => self.arrive(now, component),
        }
    }

    /// A frame may have come to the end of the direction whose event is the next one.
    #[inline]
    fn arrive(&mut self, now: Time, direction: u32) -> Outcome {
        let state = &mut self.links[direction as usize];
        let frame = state.link.take(now);
        if let Some(next) = state.link.next_event() {
            state.due = Due::at(next);
            self.queue.replace_top(next);
        } else {
            state.due = Due::NEVER;
            self.queue.pop();
        }
        if let Some(dropped) = state.link.take_dropped() {
            self.dispose(direction, &dropped);
        }
        match frame {
            Some(frame) => self.forward(now, direction, frame),
            None => Outcome::Nothing,
        }
    }

    /// The packet of a frame that arrived, as the network has left it.
    #[inline]
    pub fn packet(&mut self, frame: PacketRef) -> &Packet {
        // A queue may have marked it on the way.
        self.slab.mark(frame.id, frame.ecn())
    }

    /// The same, taken out once it has been looked at.
    #[inline]
    pub fn take_packet(&mut self, frame: PacketRef) -> Packet {
        self.slab.take(frame.id)
    }

    /// Wakes an end of a flow at a moment.
    #[inline]
    pub fn wake(&mut self, end: EndId, at: Time) {
        let component = self.component_of(end);
        self.queue.push(at, component);
    }

    /// Components are the link directions, then the ends of the flows, then the middleboxes.
    #[inline]
    fn component_of(&self, end: EndId) -> u32 {
        self.links.len() as u32 + end
    }

    /// The end of a flow that a component number stands for; none for a link direction.
    #[inline]
    fn end_of(&self, component: u32) -> Option<EndId> {
        component.checked_sub(self.links.len() as u32)
    }

    /// An end of a flow sends a packet.
    #[expect(clippy::inline_always, reason = "all packets but a few come from one of its two callers")]
    #[inline(always)]
    pub fn send(&mut self, now: Time, from: EndId, routes: &mut Routes, packet: Packet) {
        let start = match routes.find(&packet) {
            Some(start) => start,
            None => self.resolve(from ^ 1, routes, &packet),
        };
        if self.checking.is_some() {
            self.check(now, from, &packet);
        }
        if start == UNREACHABLE {
            self.unreachable += 1;
            self.note_lost(from, &packet);
            return;
        }
        let (len, ecn, may_fragment) = (packet.wire_len(), packet.ecn, packet.may_fragment());
        let flow = if self.tells_flows_apart { flow_of(&packet) } else { 0 };
        let id = self.slab.insert(packet);
        let mut frame = PacketRef::new(id, len, ecn);
        if may_fragment {
            frame = frame.fragmentable();
        }
        frame.next = start + 1;
        frame.flow = flow;
        self.offer(now, self.hops[start as usize], frame);
    }

    /// A change ordered by the scenario.
    pub fn change(&mut self, now: Time, direction: Interface, change: &Change) {
        self.links[direction.index()].link.change(now, change);
        self.reschedule(direction.0);
    }

    #[inline]
    fn forward(&mut self, now: Time, direction: u32, frame: PacketRef) -> Outcome {
        self.hops_done += 1;
        if self.capture.is_some() {
            self.record(now, Interface(direction).opposite(), frame);
        }
        if let Some(middleboxes) = &self.middleboxes
            && middleboxes.is_at(direction)
        {
            return self.interfere(now, direction, frame);
        }
        let hop = self.hops[frame.next as usize];
        if let Some(end) = self.end_of(hop) {
            return Outcome::Arrived(end, frame);
        }
        self.offer(now, hop, frame.onwards());
        Outcome::Nothing
    }

    /// A link gets a frame. One function for all that a hop needs: to save registers for parts of it costs as much as they do.
    #[inline(never)]
    fn offer(&mut self, now: Time, direction: u32, frame: PacketRef) {
        if self.capture.is_some() {
            self.record(now, Interface(direction), frame);
        }
        self.links[direction as usize].link.offer(now, frame);
        self.reschedule(direction);
    }

    /// Hands over what can be, schedules what a link has to do and disposes of what it dropped.
    #[expect(clippy::inline_always, reason = "all but a few calls come from where a frame is offered")]
    #[inline(always)]
    fn reschedule(&mut self, direction: u32) {
        if self.links[direction as usize].role == Role::Feeds {
            self.forward_ahead(direction);
        }
        self.schedule(direction);
    }

    /// Schedules what a link has to do and disposes of what it dropped.
    #[expect(clippy::inline_always, reason = "a few instructions, mostly without any effect")]
    #[inline(always)]
    fn schedule(&mut self, direction: u32) {
        let state = &mut self.links[direction as usize];
        if let Some(next) = state.link.next_event()
            && Due::at(next) < state.due
        {
            state.due = Due::at(next);
            self.queue.push(next, direction);
        }
        if let Some(dropped) = state.link.take_dropped() {
            self.dispose(direction, &dropped);
        }
    }

    #[cold]
    fn dispose(&mut self, direction: u32, dropped: &[Dropped<PacketRef>]) {
        for &Dropped { at, frame, cause } in dropped {
            let mut packet = self.slab.take(frame.id);
            packet.ecn = frame.ecn();
            let state = &mut self.links[direction as usize];
            state.drops.word(cause as u64);
            state.drops.packet(at, (direction, frame.wire_len()), &packet);
            let sender = self.sender_of(frame);
            if let Some(sender) = sender {
                self.note_lost(sender, &packet);
            }
            if let Some(capture) = &mut self.capture
                && let Err(error) = capture.dropped(
                    at,
                    Interface(direction),
                    (sender.map(|end| end as usize / 2), cause),
                    &packet,
                )
            {
                self.failure.get_or_insert(Failure::Capture(error));
            }
            let state = &self.links[direction as usize];
            if cause == DropCause::Mtu && state.answers.is_some() {
                self.answer_too_big(at, direction, frame, &packet);
            }
        }
    }

    /// A packet will never arrive. Of a protocol that sends again, nobody asks.
    #[cold]
    fn note_lost(&mut self, sender: EndId, packet: &Packet) {
        if let Body::Udp(datagram) = &packet.body {
            self.lost.entry(sender).or_default().push(datagram.payload);
        }
    }

    /// The datagrams of an end that were dropped since the last time; it may be known ahead of time.
    pub fn take_lost(&mut self, sender: EndId) -> Vec<Payload> {
        self.lost.remove(&sender).unwrap_or_default()
    }

    /// Finds the route between a packet's addresses, which leads to `end`, and remembers it.
    #[cold]
    fn resolve(&mut self, end: EndId, routes: &mut Routes, packet: &Packet) -> u32 {
        let pair = Interface::of_address(packet.source).zip(Interface::of_address(packet.destination));
        let start = match pair.and_then(|(from, to)| self.network.route(from, to)) {
            Some(route) => self.add_route(&route, end),
            None => UNREACHABLE,
        };
        routes.remember(packet, start);
        start
    }

    /// Keeps a route to an end of a flow; where it begins.
    fn add_route(&mut self, route: &[Interface], end: EndId) -> u32 {
        let start = self.hops.len() as u32;
        self.hops.extend(route.iter().map(|hop| hop.0));
        let destination = self.component_of(end);
        self.hops.push(destination);
        start
    }

    #[cold]
    fn check(&mut self, at: Time, from: EndId, packet: &Packet) {
        let Some(scratch) = &mut self.checking else { return };
        let wire =
            anabranch_wire::check(packet, scratch).err().map(|error| Failure::Wire { at, from, error });
        self.failure = self.failure.take().or(wire);
    }

    #[cold]
    fn record(&mut self, now: Time, at: Interface, frame: PacketRef) {
        let flow = self.sender_of(frame).map(|end| end as usize / 2);
        let packet = self.slab.mark(frame.id, frame.ecn());
        if let Some(capture) = &mut self.capture
            && self.failure.is_none()
            && let Err(error) = capture.packet(now, at, flow, packet)
        {
            self.failure = Some(Failure::Capture(error));
        }
    }
}
