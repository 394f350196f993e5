//! Routers with packets that have a loose source route.

use super::super::packet::RawPacket;
use super::EmulatedNetwork;
use anabranch_middlebox::source_route::Verdict;
use anabranch_netem::{FlowHash, Interface, InterfaceAddress, IpVersion};
use anabranch_scenario::result::RouterResult;
use anabranch_wire::ip::source_route::SourceRoute;
use core::net::IpAddr;

impl EmulatedNetwork {
    /// Results of the routers to which packets with source routes have come, in the order of the nodes.
    pub fn routers(&self) -> Vec<RouterResult> {
        let counts = self.source_routers.iter().map(|(&node, router)| (node, router.counts()));
        let counts = counts.filter(|(_, counts)| counts.packets > 0);
        counts.map(|(node, counts)| RouterResult::of(&self.network.nodes()[node].name, counts)).collect()
    }

    /// Passes a packet to the router at which it has arrived, if it has a source route; `None` if the router drops it.
    #[inline]
    pub(super) fn follow_source_route(&mut self, direction: u32, packet: RawPacket) -> Option<RawPacket> {
        match packet.source_route() {
            None => Some(packet),
            Some(route) => self.route_by_source(direction, (packet, route)),
        }
    }

    #[cold]
    fn route_by_source(
        &mut self,
        direction: u32,
        (mut packet, route): (RawPacket, SourceRoute),
    ) -> Option<RawPacket> {
        let here = Interface(direction).opposite();
        let node = self.network.owner(here);
        let own = self.address_of(packet.destination());
        let is_own = own.is_some_and(|address| self.network.owner(address.interface) == node);
        let Some(router) = self.source_routers.get_mut(&node) else { return Some(packet) };
        let to = match router.judge(&route, is_own) {
            Verdict::Pass => return Some(packet),
            Verdict::Follow(to) => IpAddr::V4(to),
            Verdict::Drop => {
                self.recycle(packet.into_bytes());
                return None;
            }
        };
        let hash = if self.routes_by_flow { packet.route_hash_to(to) } else { FlowHash::default() };
        let start = self.address_of(to).and_then(|to| self.route_from(here.0, to, hash));
        let Some(start) = start else {
            if let Some(router) = self.source_routers.get_mut(&node) {
                router.count_unroutable();
            }
            self.recycle(packet.into_bytes());
            return None;
        };
        let by = Interface(self.hops[start as usize]);
        let recorded = InterfaceAddress::first(by, IpVersion::V4).ip(self.generations[by.link()]);
        if let IpAddr::V4(recorded) = recorded {
            packet.follow_source_route(recorded);
        }
        packet.next = start;
        Some(packet)
    }
}
