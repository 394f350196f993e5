//! ICMP errors of routers about packets that the next link cannot carry.

use super::{Datapath, EndId, Interface, Packet, PacketRef, Time, UNREACHABLE, flow_of};
use crate::engine::forwarding::ErrorRoute;
use crate::scenario::Scenario;
use anabranch_base::RateLimit;
use anabranch_netem::{FlowHash, Frame, InterfaceAddress, IpVersion, Network};
use anabranch_wire::icmp::{Message, Quote};
use anabranch_wire::{Body, Ecn};

/// Maximum number of errors per second of an interface, and of errors at once: Linux's default limits for a host
/// (`icmp_msgs_per_sec`, `icmp_msgs_burst`). RFC 1812 §4.3.2.8 and RFC 4443 §2.4 f require a limit.
const MAX_ERRORS_PER_SECOND: u32 = 1_000;
const MAX_ERROR_BURST: u32 = 50;

/// Rate limit of the errors of one interface.
pub(super) fn error_rate_limit() -> RateLimit {
    RateLimit::with_burst(MAX_ERRORS_PER_SECOND, MAX_ERROR_BURST)
}

/// Returns true if a packet can be too large for a link that sends errors, because the link has a smaller MTU than
/// another link, or than a flow's own packets. Data packets fit the narrowest link of their path; packets of another
/// path and control packets may be larger.
fn can_occur(scenario: &Scenario) -> bool {
    let models = || scenario.links.iter().flat_map(|link| [&link.forward, &link.reverse]);
    let own = scenario.flows.iter().filter_map(|flow| flow.mtu);
    let largest = models().map(|model| model.mtu).chain(own).max().unwrap_or_default();
    models().any(|model| model.icmp && model.mtu < largest)
}

/// Possible routes of errors: from each direction for which a flow's packet may be too large, back to the end
/// that sent it.
pub(super) fn routes(scenario: &Scenario, network: &mut Network) -> Vec<ErrorRoute> {
    if !can_occur(scenario) {
        return Vec::new();
    }
    let model = |hop: Interface| {
        let link = &scenario.links[hop.link()];
        if hop.end() == 0 { &link.forward } else { &link.reverse }
    };
    let mut all = Vec::new();
    for (flow, index) in scenario.flows_of_connections().into_iter().enumerate() {
        let declared = &scenario.flows[index];
        let pairs: Vec<_> = network.connected_pairs(flow).collect();
        let both = pairs.into_iter().flat_map(|[near, far]| [(0, near, far), (1, far, near)]);
        let walk = |(side, from, to)| (side, from, network.hops(from, to).into_iter().collect());
        let routes: Vec<(u32, InterfaceAddress, Vec<Interface>)> = both.map(walk).collect();
        let hops = || routes.iter().flat_map(|(_, _, hops)| hops.iter().copied());
        let largest = hops().map(|hop| model(hop).mtu).chain(declared.mtu).max().unwrap_or_default();
        for (side, from, hops) in &routes {
            for &hop in hops.iter().filter(|hop| model(**hop).icmp && model(**hop).mtu < largest) {
                let router = network.owner(hop);
                if let Some(back) = network.route_from(router, *from, FlowHash::default()) {
                    let back = back.into_iter().map(|hop| hop.0).collect();
                    all.push(ErrorRoute { narrow: hop.0, back, end: 2 * flow as EndId + side });
                }
            }
        }
    }
    all
}

impl Datapath {
    /// Sends an error to the sender of a packet that is too large for a direction (RFC 1191 §4, RFC 4443
    /// §3.2). It is sent like any packet, from the router's interface at that link. Errors are not answered
    /// with errors (RFC 1122 §3.2.2).
    #[cold]
    pub(super) fn answer_too_big(&mut self, at: Time, direction: u32, frame: PacketRef, packet: &Packet) {
        let limit = self.links[direction as usize].answers.as_mut();
        if matches!(packet.body, Body::Icmp(_)) || !limit.is_some_and(|limit| limit.allows(at)) {
            return;
        }
        let Some(sender) = self.sender_of(frame) else { return };
        let mtu = self.links[direction as usize].link.mtu();
        let error = Packet {
            source: Interface(direction).address(IpVersion::of(packet.source)),
            destination: packet.source,
            ecn: Ecn::NotEct,
            body: Body::Icmp(Box::new(Message::PacketTooBig { mtu, quote: Quote::of(packet) })),
        };
        let start = self.error_route(direction, sender, &error);
        if start == UNREACHABLE {
            self.unreachable += 1;
            return;
        }
        let (len, flow) = (error.wire_len(), flow_of(&error));
        let id = self.slab.insert(error);
        if self.encoding.is_some() {
            self.encode(at, Some(sender), id);
        }
        let mut frame = PacketRef::new(id, len, Ecn::NotEct);
        (frame.next, frame.flow) = (start + 1, flow);
        debug_assert_eq!(frame.wire_len(), len);
        self.offer(at, self.hops[start as usize], frame);
    }

    /// The end of a flow that sent a packet, which is opposite to the end of the packet's route.
    pub(super) fn sender_of(&self, frame: PacketRef) -> Option<EndId> {
        self.sender_at(frame.next)
    }

    /// The end of a flow whose packets continue at an index into the routes.
    pub(super) fn sender_at(&self, next: u32) -> Option<EndId> {
        let onwards = self.hops.get(next as usize..)?;
        onwards.iter().find_map(|&hop| self.end_of(hop)).map(|end| end ^ 1)
    }

    /// The first hop of an error from a direction's router to an end of a flow.
    fn error_route(&mut self, direction: u32, end: EndId, error: &Packet) -> u32 {
        let Some(to) = InterfaceAddress::of(error.destination) else { return UNREACHABLE };
        let hash = self.flow_hash(error);
        if let Some(&start) = self.error_routes.get(&(direction, end, to, hash)) {
            return start;
        }
        let node = self.network.owner(Interface(direction));
        let start = match self.network.route_from(node, to, hash) {
            Some(route) => self.add_route(&route, end),
            None => UNREACHABLE,
        };
        self.error_routes.insert((direction, end, to, hash), start);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn errors_occur_at_narrower_links() {
        let found = |scenario: &Scenario| {
            let mut network = scenario.network().expect("a network");
            routes(scenario, &mut network)
        };
        // The bottleneck, then each flow's links: at its sender, and at its receiver.
        let mut scenario = presets::dumbbell(1, 2, 10, 10);
        assert_eq!(found(&scenario), []);
        scenario.links[4].forward.mtu = 1400;
        let second = ErrorRoute { narrow: 8, back: vec![1, 7], end: 2 };
        assert_eq!(found(&scenario), [second], "the error to the second flow's sender, over the bottleneck");
        scenario.links[4].forward.icmp = false;
        assert_eq!(found(&scenario), []);
        scenario.links[4].forward.mtu = 1500;
        scenario.flows[0].mtu = Some(1501);
        // A host sends no errors to itself: of the three links of a path, the last two send them.
        let first = [(0, vec![3], 0), (4, vec![1, 3], 0), (1, vec![4], 1), (3, vec![0, 4], 1)];
        let first = first.map(|(narrow, back, end)| ErrorRoute { narrow, back, end });
        assert_eq!(found(&scenario), first);
    }
}
