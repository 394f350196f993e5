//! Routers with network control, which choose the routes of paths that request it.

use super::{Datapath, Interface, InterfaceAddress, PacketRef, Time};
use anabranch_middlebox::FlowKey;
use anabranch_middlebox::network_control::{ControlRouter, Way};
use anabranch_netem::{FlowHash, Frame};
use anabranch_wire::ip::network_option::NetworkOption;
use anabranch_wire::ip::option::IpOption;
use anabranch_wire::ip::protocol;
use anabranch_wire::sctp::{Chunk, NetworkControl};
use anabranch_wire::{Body, Packet};
use core::net::SocketAddr;

/// The request of a packet: the first chunk of SCTP, or an option of IP with TCP.
fn request_in(packet: &mut Packet) -> Option<&mut NetworkControl> {
    match &mut packet.body {
        Body::Sctp(packet) => match packet.chunks.first_mut() {
            Some(Chunk::NetworkControl(control)) if packet.udp.is_none() && !control.is_report => {
                Some(control)
            }
            _ => None,
        },
        Body::Tcp(segment) => match segment.ip_option.as_deref_mut() {
            Some(IpOption::NetworkControl(NetworkOption::Request(control))) => Some(control),
            _ => None,
        },
        Body::Udp(_) | Body::Icmp(_) => None,
    }
}

impl Datapath {
    /// Returns true if some routers choose the routes of paths.
    pub const fn has_network_control(&self) -> bool {
        self.routers.is_some()
    }

    /// Finds the route of a path between two ends under network control, in place of the route by flow hash. `protocol`
    /// is the number of its transport in the IP header.
    pub fn follow_choices(
        &mut self,
        now: Time,
        (protocol, [source, destination]): (u8, [SocketAddr; 2]),
        (hash, mut route): (FlowHash, Vec<Interface>),
    ) -> Vec<Interface> {
        let Some(routers) = &mut self.routers else { return route };
        let flow = FlowKey { protocol, source, destination };
        let Some(to) = InterfaceAddress::of(destination.ip()) else { return route };
        let mut at = 1;
        while at < route.len() {
            let router = routers.routers.get_mut(&self.network.owner(route[at]));
            let chosen = router.and_then(|router| router.way_of(now, &flow)).filter(|&by| by != route[at]);
            if let Some(rest) = chosen.and_then(|by| self.network.route_out(by, to, hash)) {
                route.truncate(at);
                route.extend(rest);
            }
            at += 1;
        }
        route
    }

    /// Passes a frame to the router at which it has arrived, if the router has network control. Returns the frame
    /// with the next hop that the router chose; `None` if the packet's bytes are invalid.
    pub(super) fn pass_to_router(
        &mut self,
        now: Time,
        direction: u32,
        mut frame: PacketRef,
    ) -> Option<PacketRef> {
        let Some(routers) = &self.routers else { return Some(frame) };
        let node = self.network.owner(Interface(direction).opposite());
        if !routers.routers.contains_key(&node) {
            return Some(frame);
        }
        let current = Interface(self.hops[frame.next as usize]);
        let flow = FlowKey::of(self.slab.get(frame.id));
        let is_request = request_in(self.slab.get_mut(frame.id)).is_some();
        if is_request && !self.parse_arrival(now, frame) {
            return None;
        }
        let chosen = if is_request {
            self.answer_request(now, node, frame)
        } else {
            flow.and_then(|flow| self.router(node).way_of(now, &flow))
        };
        let by = chosen.unwrap_or(current);
        if by != current
            && let Some(start) = self.onward_by(by, frame)
        {
            frame.next = start;
        }
        let by = Interface(self.hops[frame.next as usize]);
        self.router(node).forwarded(now, by, frame.wire_len());
        Some(frame)
    }

    /// The router at a node.
    fn router(&mut self, node: usize) -> &mut ControlRouter {
        let routers = self.routers.as_mut().expect("there are routers with network control");
        routers.routers.get_mut(&node).expect("the node has network control")
    }

    /// Chooses the route of a request and fills a record.
    fn answer_request(&mut self, now: Time, node: usize, frame: PacketRef) -> Option<Interface> {
        let mut packet = self.slab.get(frame.id).clone();
        let (flow, to) = (FlowKey::of(&packet), InterfaceAddress::of(packet.destination));
        let (Some(flow), Some(to), Some(request)) = (flow, to, request_in(&mut packet)) else {
            return None;
        };
        let ways = self.network.all_ways(node, to);
        let ways: Vec<_> = ways.into_iter().map(|by| Way::of(by, self.link(by).at(now), now)).collect();
        if ways.is_empty() {
            return None;
        }
        let by = self.router(node).choose(now, flow, request, &ways);
        if flow.protocol == protocol::TCP {
            request.discard_records();
        }
        *self.slab.get_mut(frame.id) = packet;
        if self.encoding.is_some() {
            self.encode(now, self.sender_of(frame), frame.id);
        }
        Some(by)
    }

    /// Index of the first hop of the route by a router's interface to the end of a flow that is a frame's destination.
    fn onward_by(&mut self, by: Interface, frame: PacketRef) -> Option<u32> {
        let packet = self.slab.get(frame.id);
        let (hash, to) = (self.flow_hash(packet), InterfaceAddress::of(packet.destination)?);
        let end = self.sender_of(frame)? ^ 1;
        let known = self.routers.as_ref().and_then(|routers| routers.onward.get(&(by, to, end, hash)));
        if let Some(&start) = known {
            return Some(start);
        }
        let route = self.network.route_out(by, to, hash)?;
        let start = self.add_route(&route, end);
        if let Some(routers) = &mut self.routers {
            routers.onward.insert((by, to, end, hash), start);
        }
        Some(start)
    }
}
