//! The links of a path.

use crate::engine::Datapath;
use crate::scenario::Scenario;
use crate::scenario::model::{self, Protocol};
use anabranch_base::time::Time;
use anabranch_netem::{Interface, InterfaceAddress, Network};
use anabranch_wire::ip;
use core::net::SocketAddr;

/// The links that a path of a protocol takes, which routers with network control may have chosen.
pub fn links_taken(
    scenario: &Scenario,
    (ends, protocol): ([SocketAddr; 2], &Protocol),
    (now, datapath): (Time, &mut Datapath),
) -> Vec<String> {
    let route = hashed_route((ends, protocol), datapath.network());
    let transport = match protocol {
        Protocol::Tcp(_) | Protocol::Mptcp(_) => ip::protocol::TCP,
        Protocol::Udp => ip::protocol::UDP,
        Protocol::Sctp(_) => ip::protocol::SCTP,
    };
    let hash = model::flow_hash(protocol, ends);
    let route = datapath.follow_choices(now, (transport, ends), (hash, route));
    route.into_iter().map(|hop| scenario.links[hop.link()].name.clone()).collect()
}

/// The route between the ends of a path that routers choose by a hash of the flow; empty if there is none.
pub fn hashed_route((ends, protocol): ([SocketAddr; 2], &Protocol), network: &mut Network) -> Vec<Interface> {
    let [Some(from), Some(to)] = ends.map(|end| InterfaceAddress::of(end.ip())) else { return Vec::new() };
    network.route_of([from, to], model::flow_hash(protocol, ends)).unwrap_or_default()
}
