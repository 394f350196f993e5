//! Routers with packets that have a loose source route.

use super::{Datapath, EndId, Interface, PacketRef, Time, UNREACHABLE, flow_of};
use crate::measure::digest::Digest;
use crate::scenario::Scenario;
use anabranch_middlebox::source_route::{SourceRouteCounts, SourceRouter, Verdict};
use anabranch_netem::{FlowHash, Frame, InterfaceAddress, IpVersion, Network};
use anabranch_wire::ip::option::IpOption;
use anabranch_wire::ip::source_route::SourceRoute;
use anabranch_wire::{Body, Packet};
use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;

/// The routers of a network in which hosts send source routes.
#[derive(Debug)]
pub struct SourceRouters {
    /// By node.
    routers: BTreeMap<usize, SourceRouter>,
    /// Routes from a node to ends of flows: the index of the first hop.
    onward: BTreeMap<(usize, InterfaceAddress, EndId, FlowHash), u32>,
    drops: Digest,
}

impl SourceRouters {
    /// The routers of a scenario; `None` if no flow has source routes.
    pub(super) fn of(scenario: &Scenario, network: &mut Network) -> Option<Box<Self>> {
        scenario.uses_gateways().then(|| {
            let routers = scenario.source_routers(network);
            Box::new(Self { routers, onward: BTreeMap::new(), drops: Digest::new() })
        })
    }

    /// Adds the dropped packets to the digest.
    pub(super) fn digest(&self, digest: &mut Digest) {
        digest.word(self.drops.value());
    }

    /// Counts since the start, by node.
    pub fn counts(&self) -> impl Iterator<Item = (usize, SourceRouteCounts)> {
        self.routers.iter().map(|(&node, router)| (node, router.counts()))
    }
}

/// The source route of a packet.
fn route_of(packet: &Packet) -> Option<SourceRoute> {
    match &packet.body {
        Body::Tcp(segment) => match segment.ip_option.as_deref() {
            Some(IpOption::SourceRoute(route)) => Some(*route),
            _ => None,
        },
        Body::Sctp(_) | Body::Udp(_) | Body::Icmp(_) => None,
    }
}

impl Datapath {
    /// The routers of a network in which hosts send source routes.
    pub fn source_routers(&self) -> Option<&SourceRouters> {
        self.source_routers.as_deref()
    }

    /// Passes a frame to the router at which it has arrived, if it has a source route. Returns the frame with its next
    /// hop; `None` if the router has dropped the packet, or the packet's bytes are invalid.
    #[cold]
    pub(super) fn follow_source_route(
        &mut self,
        now: Time,
        direction: u32,
        frame: PacketRef,
    ) -> Option<PacketRef> {
        let node = self.network.owner(Interface(direction).opposite());
        if route_of(self.slab.get(frame.id)).is_none()
            || !self.source_routers.as_ref()?.routers.contains_key(&node)
        {
            return Some(frame);
        }
        if !self.parse_arrival(now, frame) {
            return None;
        }
        let packet = self.slab.get(frame.id);
        let route = route_of(packet)?;
        let own = self.present_address(packet.destination);
        let is_own = own.is_some_and(|address| self.network.owner(address.interface) == node);
        match self.source_router(node).judge(&route, is_own) {
            Verdict::Pass => Some(frame),
            Verdict::Drop => self.drop_source_routed(now, node, frame),
            Verdict::Follow(to) => {
                let followed = self.follow(now, (node, to), (frame, route));
                if followed.is_none() {
                    self.source_router(node).count_unroutable();
                    return self.drop_source_routed(now, node, frame);
                }
                followed
            }
        }
    }

    /// Sends a packet to the next address of its source route; `None` if there is no route to it.
    fn follow(
        &mut self,
        now: Time,
        (node, to): (usize, Ipv4Addr),
        (frame, route): (PacketRef, SourceRoute),
    ) -> Option<PacketRef> {
        let end = self.sender_of(frame)? ^ 1;
        let address = self.present_address(to.into())?;
        let packet = self.slab.get_mut(frame.id);
        packet.ecn = frame.ecn();
        packet.destination = to.into();
        let hash = self.flow_hash(self.slab.get(frame.id));
        let start = self.onward_from((node, address), (end, hash));
        if start == UNREACHABLE {
            return None;
        }
        let by = Interface(self.hops[start as usize]);
        let recorded = InterfaceAddress::first(by, IpVersion::V4).ip(self.generation(by.link()));
        let IpAddr::V4(recorded) = recorded else { return None };
        let (_, next) = route.followed(recorded)?;
        let packet = self.slab.get_mut(frame.id);
        if let Body::Tcp(segment) = &mut packet.body {
            segment.ip_option = next.map(|route| Box::new(IpOption::SourceRoute(route)));
        }
        let mut onwards = PacketRef::of(frame.id, packet);
        onwards.flow = if self.needs_flow_hash { flow_of(packet) } else { 0 };
        onwards.next = start;
        if self.encoding.is_some() {
            self.encode(now, Some(end ^ 1), frame.id);
        }
        Some(onwards)
    }

    /// Index of the first hop of the route from a node to the end of a flow at an address, or to a router on the way there.
    fn onward_from(&mut self, (node, to): (usize, InterfaceAddress), (end, hash): (EndId, FlowHash)) -> u32 {
        let key = (node, to, end, hash);
        let known = self.source_routers.as_ref().and_then(|routers| routers.onward.get(&key));
        if let Some(&start) = known {
            return start;
        }
        let start = match self.network.route_from(node, to, hash) {
            Some(route) => self.add_route(&route, end),
            None => UNREACHABLE,
        };
        if let Some(routers) = &mut self.source_routers {
            routers.onward.insert(key, start);
        }
        start
    }

    fn drop_source_routed(&mut self, now: Time, node: usize, frame: PacketRef) -> Option<PacketRef> {
        let packet = self.slab.take(frame.id);
        if let Some(routers) = &mut self.source_routers {
            routers.drops.packet(now, (node as u32, frame.wire_len()), &packet);
        }
        None
    }

    /// # Panics
    ///
    /// If the node is a host, or no flow has source routes.
    fn source_router(&mut self, node: usize) -> &mut SourceRouter {
        let routers = self.source_routers.as_mut().expect("flows have source routes");
        routers.routers.get_mut(&node).expect("the node is a router")
    }

    /// The interface's address that has this value now.
    fn present_address(&self, ip: IpAddr) -> Option<InterfaceAddress> {
        let (address, generation) = InterfaceAddress::with_generation(ip)?;
        let is_present = address.interface.index() < self.links.len()
            && generation == self.generation(address.link())
            && self.network.has(address);
        is_present.then_some(address)
    }
}
