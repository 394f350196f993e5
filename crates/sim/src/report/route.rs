//! The links of a path.

use crate::engine::Datapath;
use crate::scenario::Scenario;
use crate::scenario::model::{self, Protocol};
use anabranch_base::time::Time;
use anabranch_netem::{Interface, InterfaceAddress, Network};
use core::net::SocketAddr;

/// The links between the ends of a path of a protocol, as routers choose them by a hash.
pub fn links_of(
    scenario: &Scenario,
    (ends, protocol): ([SocketAddr; 2], &Protocol),
    network: &mut Network,
) -> Vec<String> {
    let route = hashed_route((ends, protocol), network);
    route.into_iter().map(|hop| scenario.links[hop.link()].name.clone()).collect()
}

/// The links that a path of a protocol takes, which routers with network control may have chosen.
pub fn links_taken(
    scenario: &Scenario,
    (ends, protocol): ([SocketAddr; 2], &Protocol),
    (now, datapath): (Time, &mut Datapath),
) -> Vec<String> {
    let route = hashed_route((ends, protocol), datapath.network());
    let route = datapath.follow_choices(now, ends, (model::flow_hash(protocol, ends), route));
    route.into_iter().map(|hop| scenario.links[hop.link()].name.clone()).collect()
}

fn hashed_route((ends, protocol): ([SocketAddr; 2], &Protocol), network: &mut Network) -> Vec<Interface> {
    let address = |end: SocketAddr| InterfaceAddress::with_generation(end.ip()).map(|(address, _)| address);
    let [Some(from), Some(to)] = ends.map(address) else { return Vec::new() };
    network.route_of([from, to], model::flow_hash(protocol, ends)).unwrap_or_default()
}
