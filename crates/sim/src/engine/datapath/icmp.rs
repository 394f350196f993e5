//! What a router says of packets that the next link cannot carry.

use super::{Datapath, EndId, Interface, Packet, PacketRef, Time, UNREACHABLE, flow_of};
use crate::scenario::Scenario;
use core::net::IpAddr;
use netem::{Frame, IpVersion};
use wire::icmp::{Message, Quote};
use wire::{Body, Ecn};

/// Whether a packet may be too large for a link that answers it: one that is narrower than another, or than a flow's own
/// packets. Data keeps to the narrowest link of its way, but a packet of another path or of control may not.
pub(super) fn may_arise(scenario: &Scenario) -> bool {
    let models = || scenario.links.iter().flat_map(|link| [&link.forward, &link.reverse]);
    let own = scenario.flows.iter().filter_map(|flow| flow.common.mtu);
    let largest = models().map(|model| model.mtu).chain(own).max().unwrap_or_default();
    models().any(|model| model.icmp && model.mtu < largest)
}

impl Datapath {
    /// Tells the sender of a packet that it is too large for a direction (RFC 1191 §4, RFC 4443 §3.2). The error is a
    /// packet like any other, from the router's interface there. No error is answered with one (RFC 1122 §3.2.2).
    #[cold]
    pub(super) fn answer_too_big(&mut self, at: Time, direction: u32, frame: PacketRef, packet: &Packet) {
        if matches!(packet.body, Body::Icmp(_)) {
            return;
        }
        let Some(sender) = self.sender_of(frame) else { return };
        let start = self.error_route(direction, sender, packet.source);
        if start == UNREACHABLE {
            self.unreachable += 1;
            return;
        }
        let version = if packet.source.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
        let mtu = self.links[direction as usize].link.mtu();
        let error = Packet {
            source: Interface(direction).address(version),
            destination: packet.source,
            ecn: Ecn::NotEct,
            body: Body::Icmp(Box::new(Message::PacketTooBig { mtu, quote: Quote::of(packet) })),
        };
        if self.checking.is_some() {
            self.check(at, sender, &error);
        }
        let (len, flow) = (error.wire_len(), flow_of(&error));
        let mut frame = PacketRef::new(self.slab.insert(error), len, Ecn::NotEct);
        (frame.next, frame.flow) = (start + 1, flow);
        debug_assert_eq!(frame.wire_len(), len);
        self.offer(at, self.hops[start as usize], frame);
    }

    /// The end of a flow that sent a packet: the other one than that to which its route leads.
    pub(super) fn sender_of(&self, frame: PacketRef) -> Option<EndId> {
        let onwards = self.hops.get(frame.next as usize..)?;
        onwards.iter().find_map(|&hop| self.end_of(hop)).map(|end| end ^ 1)
    }

    /// Where the error of a direction's router to an end of a flow goes first.
    fn error_route(&mut self, direction: u32, end: EndId, source: IpAddr) -> u32 {
        let Some(to) = Interface::of_address(source) else { return UNREACHABLE };
        if let Some(&start) = self.error_routes.get(&(direction, end, to)) {
            return start;
        }
        let node = self.network.owner(Interface(direction));
        let start = match self.network.route_from(node, to) {
            Some(route) => self.add_route(&route, end),
            None => UNREACHABLE,
        };
        self.error_routes.insert((direction, end, to), start);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn errors_may_arise_where_one_link_is_narrower_than_another() {
        let mut scenario = presets::dumbbell(1, 1, 10, 10);
        assert!(!may_arise(&scenario));
        scenario.links[0].reverse.mtu = 1400;
        assert!(may_arise(&scenario));
        scenario.links[0].reverse.icmp = false;
        assert!(!may_arise(&scenario));
        scenario.flows[0].common.mtu = Some(1501);
        assert!(may_arise(&scenario));
    }
}
