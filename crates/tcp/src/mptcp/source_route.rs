//! Subflows through gateways, which loose source routes name (RFC 791 §3.1; Boccassi et al. 2013).
//!
//! Every packet of such a subflow has the option: its header's destination is the first hop, and the last address of the
//! option is the peer. The gateway removes the option, so neither the peer nor its packets have it. An RST that answers a
//! segment of an unknown subflow has none, either.

use super::connection::Connection;
use crate::tcp::segment_of;
use anabranch_multipath::path_manager::Pair;
use anabranch_wire::Packet;
use anabranch_wire::ip::option::IpOption;
use anabranch_wire::ip::source_route::SourceRoute;
use core::net::{IpAddr, Ipv4Addr};

impl Connection {
    /// Index of the gateway of a subflow between addresses of IPv4; `None` for the initial one, and without gateways.
    pub(super) fn gateway_of(&self, pair: Pair) -> Option<usize> {
        usize::from(pair.port).checked_rem(self.config.source_routes.len()).filter(|_| pair.port > 0)
    }

    fn hops_of(&self, pair: Pair) -> Option<&[Ipv4Addr]> {
        Some(self.config.source_routes[self.gateway_of(pair)?].as_slice())
    }

    /// Bytes of the option in each packet of a subflow.
    pub(super) fn source_route_len(&self, pair: Pair, local: IpAddr) -> u32 {
        let hops = self.hops_of(pair).filter(|_| local.is_ipv4());
        hops.map_or(0, |hops| SourceRoute::len_of(hops.len()))
    }

    /// Sends a packet of a subflow through the gateway of the subflow, if it has one.
    #[cold]
    pub(super) fn add_source_route(&self, index: usize, packet: &mut Packet) {
        let Some([first, further @ ..]) = self.hops_of(self.subflows[index].pair) else { return };
        let IpAddr::V4(destination) = packet.destination else { return };
        let addresses: Vec<_> = further.iter().copied().chain([destination]).collect();
        packet.destination = IpAddr::V4(*first);
        let route = IpOption::SourceRoute(SourceRoute::new(&addresses));
        segment_of(packet).ip_option = Some(Box::new(route));
    }
}
