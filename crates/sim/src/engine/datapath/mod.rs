//! The links of a network, their packets, and the pending events of links and hosts.

mod control_routers;
mod copies;
mod datagram;
mod encoding;
mod end;
mod icmp;
mod lookahead;
mod middleboxes;
mod network_control;
mod processors;
mod renumbering;
mod routes;
mod source_routes;
mod wire;

pub use middleboxes::{MiddleboxCounts, Middleboxes};
pub use processors::{ProcessorUse, Processors};
pub use routes::Routes;
pub use source_routes::SourceRouters;

pub use self::end::EndId;

use self::control_routers::ControlRouters;
use self::datagram::Copies;
use self::encoding::Encoding;

use super::events::EventQueue;
use super::forwarding::{ForwardingGraph, GraphInputs, Role};
use super::link::{LookaheadLink, PacketRef, flow_of, route_hash};
use super::slab::PacketSlab;
use crate::measure::digest::Digest;
use crate::report::capture::Capture;
use crate::scenario::Scenario;
use anabranch_base::RateLimit;
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_netem::{Change, DropCause, Dropped, FlowHash, Frame, Interface, InterfaceAddress, Network};
use anabranch_wire::{Body, CheckError, Packet, Payload};
use std::collections::BTreeMap;

/// Marks two addresses that no route connects.
const UNREACHABLE: u32 = u32::MAX;

/// Time of a link direction's next event, encoded in one integer that compares like the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due(u64);

impl Due {
    /// The direction has no event, because its destination polls it.
    const POLLED: Self = Self(0);
    /// The direction has no event.
    const NEVER: Self = Self(u64::MAX);

    /// The direction has an event at this time.
    const fn at(time: Time) -> Self {
        Self(time.as_nanos().saturating_add(1))
    }
}

/// The result of an event.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// A packet reached the end of a flow to which it is addressed; [`Datapath::packet`] returns it.
    Arrived(EndId, PacketRef),
    /// An end of a flow is due: it requested a wake-up, or packets wait on its ingress links.
    Woken(EndId),
    /// The processor of a host needs the number of entries before this packet; [`Datapath::search`] takes it.
    Searches(EndId, PacketRef),
    /// The event concerns no host.
    Nothing,
}

/// A link direction and the time of its next event.
#[derive(Debug)]
struct LinkState {
    due: Due,
    role: Role,
    link: LookaheadLink,
    /// Digest of all frames dropped at this link. Each link has a separate one, because a lazy link detects a drop
    /// only when it is called. At the end of a run [`Datapath::catch_up`] brings all links up to date.
    drops: Digest,
    /// Rate limit of the ICMP errors about packets that are too large for this direction; `None` if it sends none.
    answers: Option<Box<RateLimit>>,
}

/// The links of a network, their packets, and all pending events.
#[derive(Debug)]
pub struct Datapath {
    queue: EventQueue,
    links: Vec<LinkState>,
    slab: PacketSlab,
    network: Network,
    graph: ForwardingGraph,
    sync_point: Time,
    /// Number of frames that reached the end of a direction.
    hops_done: u64,
    /// Concatenated routes, as component numbers: link directions, followed by the end of a flow.
    hops: Vec<u32>,
    unreachable: u64,
    /// If set, every packet sent is encoded.
    encoding: Option<Encoding>,
    /// Packets that ends of flows have sent as bytes, if they are kept.
    sent: Option<Vec<Packet>>,
    capture: Option<Box<Capture>>,
    /// True if a queue uses the flow hash of packets.
    needs_flow_hash: bool,
    /// True if routers choose among several routes by the hash of a packet's flow.
    routes_by_flow: bool,
    /// If a router chooses routes: the index of the first hop of each stored route.
    shared_routes: BTreeMap<Vec<u32>, u32>,
    /// True if events are processed in order of time, without lookahead.
    in_order: bool,
    /// Routes of the routers' ICMP errors to ends of flows. Key: the direction that could not carry a packet, the
    /// packet's sender and source address, and the hash of the error's flow.
    error_routes: BTreeMap<(u32, EndId, InterfaceAddress, FlowHash), u32>,
    /// Dropped datagrams since the last query, by the end that sent them.
    lost: BTreeMap<EndId, Vec<Payload>>,
    /// Datagrams of which the network holds several copies, by the end that sent them and the offset of their data.
    copies: BTreeMap<(EndId, u64), Copies>,
    failure: Option<Failure>,
    /// Number of new addresses of each link; `None` before the first.
    generations: Option<Box<[u8]>>,
    middleboxes: Option<Box<Middleboxes>>,
    /// Routers that choose the routes of paths.
    routers: Option<Box<ControlRouters>>,
    /// Routers that get packets with source routes.
    source_routers: Option<Box<SourceRouters>>,
    /// The processors of hosts with a cost of packets.
    processors: Option<Box<Processors>>,
    /// True if packets that ends send are encoded, or may pass a processor. One flag, so that other runs check once.
    intercepts_sent: bool,
    /// True if packets are more than forwarded at some node: by a middlebox, by a router with network control or with
    /// source routes, or by the processor of a host.
    processes: bool,
    /// Number of ends of flows.
    ends: u32,
}

/// The reason why a run has to stop.
#[derive(Debug)]
pub enum Failure {
    /// A packet and its encoding differ.
    Wire {
        /// Time at which the packet was sent.
        at: Time,
        /// The end of the flow that sent the packet.
        from: EndId,
        /// The difference.
        error: CheckError,
    },
    /// A host searches the connection of a packet by the packet's contents, and found another one than the engine.
    OtherConnection {
        /// Time at which the packet arrived.
        at: Time,
        /// The end of the flow at which it arrived.
        to: EndId,
    },
    /// The capture cannot be written.
    Capture(std::io::Error),
}

impl Datapath {
    /// The links of a scenario. The `ordered_ends` are processed in order of time, because they interact with
    /// other ends not only by packets.
    pub fn new(scenario: &Scenario, mut network: Network, ordered_ends: &[EndId], rng: &Rng) -> Self {
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
                    answers: model.icmp.then(|| Box::new(icmp::error_rate_limit())),
                });
            }
        }
        let keeps_order: Vec<_> = links.iter().map(|state| state.link.keeps_order()).collect();
        let errors = icmp::routes(scenario, &mut network);
        let processors = Processors::of(scenario, &network);
        // Ends at one processor delay one another.
        let served = processors.iter().flat_map(|processors| processors.ends());
        let ordered_ends: Vec<_> = ordered_ends.iter().copied().chain(served).collect();
        let around = GraphInputs { keeps_order: &keeps_order, errors: &errors, ordered_ends: &ordered_ends };
        let graph = ForwardingGraph::new(&mut network, scenario.connections().len(), &around);
        for (direction, state) in links.iter_mut().enumerate() {
            state.role = graph.role(direction as u32);
        }
        let needs_flow_hash = links.iter().any(|state| state.link.needs_flow_hash());
        let middleboxes = Middleboxes::of(scenario, &network);
        let routers = ControlRouters::of(scenario, &network);
        let source_routers = SourceRouters::of(scenario, &mut network);
        let processes =
            middleboxes.is_some() || routers.is_some() || source_routers.is_some() || processors.is_some();
        let routes_by_flow = network.has_alternatives();
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
            encoding: None,
            sent: None,
            capture: None,
            needs_flow_hash,
            routes_by_flow,
            shared_routes: BTreeMap::new(),
            in_order: false,
            error_routes: BTreeMap::new(),
            lost: BTreeMap::new(),
            copies: BTreeMap::new(),
            failure: None,
            generations: None,
            middleboxes,
            routers,
            source_routers,
            intercepts_sent: processors.is_some(),
            processors,
            processes,
            ends: 2 * scenario.connections().len() as u32,
        };
        // With middleboxes, network control, source routes or a choice of routes, nodes change packets, their timing and
        // their routes, which the graph does not contain. So the events are processed in order of time.
        if processes || (routes_by_flow && !errors.is_empty()) {
            datapath.keep_order();
        }
        datapath
    }

    /// Writes every packet from now on to a capture, and disables lookahead.
    pub fn capture(&mut self, capture: Capture) {
        self.capture = Some(Box::new(capture));
        self.keep_order();
    }

    /// Ends the capture.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn finish_capture(&mut self) -> std::io::Result<()> {
        self.capture.take().map_or(Ok(()), |capture| capture.finish())
    }

    /// The network.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The reason why the run has to stop, if there is one.
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

    /// Packets sent to addresses without a route.
    pub const fn unreachable(&self) -> u64 {
        self.unreachable
    }

    /// Number of arrivals of packets at the end of a link.
    pub const fn hops_done(&self) -> u64 {
        self.hops_done
    }

    /// Maximum number of packets stored at the same time: the packets in flight, and the packets sent ahead
    /// of time.
    pub fn packets_high_water(&self) -> usize {
        self.slab.high_water()
    }

    /// Brings every link up to date and counts its drops. The digest is complete only after that, since links detect
    /// some drops late.
    pub fn catch_up(&mut self, now: Time) {
        for direction in 0..self.links.len() {
            let link = &mut self.links[direction].link;
            link.advance(now);
            if let Some(dropped) = link.take_dropped() {
                self.process_drops(direction as u32, &dropped);
            }
        }
    }

    /// Adds the drops of all links to the digest, link by link.
    pub fn digest_drops(&self, digest: &mut Digest) {
        for state in &self.links {
            digest.word(state.drops.value());
        }
        if let Some(middleboxes) = &self.middleboxes {
            middleboxes.digest(digest);
        }
        if let Some(routers) = &self.source_routers {
            routers.digest(digest);
        }
        if let Some(processors) = &self.processors {
            processors.digest(digest);
        }
    }

    /// Time of the next event.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        self.queue.peek().map(|(time, _)| time)
    }

    /// Processes the next event.
    #[inline]
    pub fn step(&mut self) -> Outcome {
        let Some((now, component)) = self.queue.peek() else { return Outcome::Nothing };
        if let Some(end) = self.end_of(component) {
            self.queue.pop();
            if end >= self.ends {
                return self.node_due(now, (end - self.ends) as usize);
            }
            return Outcome::Woken(end);
        }
        let state = &mut self.links[component as usize];
        if state.due != Due::at(now) {
            // The time of the link's next event has changed since this event was scheduled.
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

    /// Processes the next event of a direction, usually the arrival of a packet at its end.
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
            self.process_drops(direction, &dropped);
        }
        match frame {
            Some(frame) => self.forward(now, direction, frame),
            None => Outcome::Nothing,
        }
    }

    /// The packet of a frame that arrived.
    #[inline]
    pub fn packet(&mut self, frame: PacketRef) -> &Packet {
        // A queue may have set the ECN mark in the frame.
        self.slab.mark(frame.id, frame.ecn())
    }

    /// Removes the packet of a frame that arrived from the pool, and returns it.
    #[expect(clippy::inline_always, reason = "a call would copy the packet once more")]
    #[inline(always)]
    pub fn take_packet(&mut self, frame: PacketRef) -> Packet {
        self.slab.take(frame.id)
    }

    /// Wakes an end of a flow at a time.
    #[inline]
    pub fn wake(&mut self, end: EndId, at: Time) {
        let component = self.component_of(end);
        self.queue.push(at, component);
    }

    /// Components are the link directions, followed by the ends of the flows, the middleboxes and the processors.
    #[inline]
    fn component_of(&self, end: EndId) -> u32 {
        self.links.len() as u32 + end
    }

    /// The end of a flow with a component number; `None` for a link direction.
    #[inline]
    fn end_of(&self, component: u32) -> Option<EndId> {
        component.checked_sub(self.links.len() as u32)
    }

    /// Sends a packet from an end of a flow.
    #[expect(clippy::inline_always, reason = "all packets but a few come from one of its two callers")]
    #[inline(always)]
    pub fn send(&mut self, now: Time, from: EndId, routes: &mut Routes, packet: Packet) {
        let start = match routes.find(&packet, self.routes_by_flow) {
            Some(start) => start,
            None => self.resolve(from ^ 1, routes, &packet),
        };
        if start == UNREACHABLE {
            self.unreachable += 1;
            self.record_lost(from, &packet);
            return;
        }
        let mut frame = PacketRef::of(0, &packet);
        frame.flow = if self.needs_flow_hash { flow_of(&packet) } else { 0 };
        frame.id = self.slab.insert(packet);
        frame.next = start + 1;
        if self.intercepts_sent {
            return self.intercept_sent(now, from, self.hops[start as usize], frame);
        }
        self.offer(now, self.hops[start as usize], frame);
    }

    /// Removes the stored routes of an end whose flow has ended. A later flow may use other routes.
    pub fn forget_flow(&self, routes: &mut Routes) {
        routes.forget(self.routes_by_flow);
    }

    /// Applies a change of the scenario.
    pub fn change(&mut self, now: Time, direction: Interface, change: &Change) {
        if !self.needs_flow_hash && matches!(change, Change::Queue(queue) if queue.needs_flow_hash()) {
            self.hash_flows(now);
        }
        let state = &mut self.links[direction.index()];
        state.link.change(now, change);
        if state.role == Role::Feeds && !state.link.keeps_order() {
            // From now on packets may change their order, so packets must not be forwarded ahead.
            state.role = Role::Plain;
            self.graph.detach(direction.0);
        }
        self.reschedule(direction.0);
    }

    /// Computes the flow hash of the packets on all links, and from now on of every packet.
    #[cold]
    fn hash_flows(&mut self, now: Time) {
        self.needs_flow_hash = true;
        for state in &mut self.links {
            // Frames that were taken ahead must leave the queue first.
            state.link.advance(now);
            state.link.visit(|frame| frame.flow = flow_of(self.slab.get(frame.id)));
        }
        if let Some(processors) = &mut self.processors {
            processors.visit(|frame| frame.flow = flow_of(self.slab.get(frame.id)));
        }
    }

    /// Calls `visit` for every packet on a link's direction at `now`: with its time of arrival if it has left the
    /// queue, its length, and the end of a flow that sent it. Waiting packets follow in the order of the queue.
    pub fn visit_packets(
        &mut self,
        now: Time,
        direction: Interface,
        visit: &mut dyn FnMut(Option<Time>, u32, Option<EndId>),
    ) {
        let mut found = Vec::new();
        let link = self.links[direction.index()].link.at(now);
        link.visit(|arrival, frame| found.push((arrival, *frame)));
        for (arrival, frame) in found {
            visit(arrival, frame.wire_len(), self.sender_of(frame));
        }
    }

    #[inline]
    fn forward(&mut self, now: Time, direction: u32, frame: PacketRef) -> Outcome {
        self.hops_done += 1;
        if self.capture.is_some() {
            self.record(now, Interface(direction).opposite(), frame);
        }
        if self.processes {
            return self.process_at_node(now, direction, frame);
        }
        self.forward_on(now, frame)
    }

    /// Forwards a frame unchanged to the next hop of its route.
    #[inline]
    fn forward_on(&mut self, now: Time, frame: PacketRef) -> Outcome {
        let hop = self.hops[frame.next as usize];
        if let Some(end) = self.end_of(hop) {
            return Outcome::Arrived(end, frame);
        }
        self.offer(now, hop, frame.onwards());
        Outcome::Nothing
    }

    /// Passes a frame to the router and the middlebox of the node at which it has arrived, or forwards it.
    #[cold]
    fn process_at_node(&mut self, now: Time, direction: u32, mut frame: PacketRef) -> Outcome {
        if self.source_routers.is_some() {
            let Some(onwards) = self.follow_source_route(now, direction, frame) else {
                return Outcome::Nothing;
            };
            frame = onwards;
        }
        let Some(frame) = self.pass_to_router(now, direction, frame) else { return Outcome::Nothing };
        if self.middleboxes.as_ref().is_some_and(|middleboxes| middleboxes.is_at(direction)) {
            return self.pass_to_middlebox(now, direction, frame);
        }
        match self.forward_on(now, frame) {
            Outcome::Arrived(end, frame) if self.processors.is_some() => {
                self.receive_by_processor(now, end, frame)
            }
            other => other,
        }
    }

    /// Offers a frame to a link. All steps of a hop are in one function, because saving registers for separate
    /// functions would cost as much as the steps.
    #[inline(never)]
    fn offer(&mut self, now: Time, direction: u32, frame: PacketRef) {
        if self.capture.is_some() {
            self.record(now, Interface(direction), frame);
        }
        let link = &mut self.links[direction as usize].link;
        let is_duplicated = link.duplicates_next();
        link.offer(now, frame);
        if is_duplicated {
            self.offer_copy(now, direction, frame);
        }
        self.reschedule(direction);
    }

    /// Forwards certain frames, schedules the link's next event and processes its dropped frames.
    #[expect(clippy::inline_always, reason = "nearly all calls come from the offer of a frame")]
    #[inline(always)]
    fn reschedule(&mut self, direction: u32) {
        if self.links[direction as usize].role == Role::Feeds {
            self.forward_ahead(direction);
        }
        self.schedule(direction);
    }

    /// Schedules the link's next event and processes its dropped frames.
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
            self.process_drops(direction, &dropped);
        }
    }

    #[cold]
    fn process_drops(&mut self, direction: u32, dropped: &[Dropped<PacketRef>]) {
        for &Dropped { at, frame, cause } in dropped {
            let mut packet = self.slab.take(frame.id);
            packet.ecn = frame.ecn();
            let state = &mut self.links[direction as usize];
            state.drops.word(cause as u64);
            state.drops.packet(at, (direction, frame.wire_len()), &packet);
            let sender = self.sender_of(frame);
            if let Some(sender) = sender {
                self.record_lost(sender, &packet);
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

    /// Records a dropped datagram. Other protocols retransmit, so their losses are not recorded.
    #[cold]
    fn record_lost(&mut self, sender: EndId, packet: &Packet) {
        if let Body::Udp(datagram) = &packet.body
            && self.is_last_copy_lost(sender, datagram.payload.offset)
        {
            self.lost.entry(sender).or_default().push(datagram.payload);
        }
    }

    /// The datagrams of an end that were dropped since the last call; a drop may be known ahead of time.
    pub fn take_lost(&mut self, sender: EndId) -> Vec<Payload> {
        self.lost.remove(&sender).unwrap_or_default()
    }

    /// Finds the route between a packet's addresses, which leads to `end`, and stores it.
    #[cold]
    fn resolve(&mut self, end: EndId, routes: &mut Routes, packet: &Packet) -> u32 {
        let pair = InterfaceAddress::of(packet.source).zip(InterfaceAddress::of(packet.destination));
        let hash = self.flow_hash(packet);
        let pair = pair.filter(|_| self.has_present_addresses(packet));
        let start = match pair.and_then(|(from, to)| self.network.route_of([from, to], hash)) {
            Some(route) => self.add_route(&route, end),
            None => UNREACHABLE,
        };
        routes.remember(packet, self.routes_by_flow, start);
        start
    }

    /// The hash by which routers forward a packet; the same for all packets, if they have no choice.
    fn flow_hash(&self, packet: &Packet) -> FlowHash {
        if self.routes_by_flow { route_hash(packet) } else { FlowHash::default() }
    }

    /// Stores a route to an end of a flow; returns the index of its first hop.
    fn add_route(&mut self, route: &[Interface], end: EndId) -> u32 {
        let start = self.hops.len() as u32;
        let destination = self.component_of(end);
        let hops: Vec<u32> = route.iter().map(|hop| hop.0).chain([destination]).collect();
        if self.routes_by_flow {
            // Many flows share few routes.
            if let Some(&known) = self.shared_routes.get(&hops) {
                return known;
            }
            self.shared_routes.insert(hops.clone(), start);
        }
        self.hops.extend(hops);
        start
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
