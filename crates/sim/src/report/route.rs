//! The links of a path.

use crate::scenario::Scenario;
use crate::scenario::model::{self, Protocol};
use anabranch_netem::{Interface, InterfaceAddress, Network};
use core::net::SocketAddr;

/// The links that a path of a protocol takes between its ends.
pub fn links_of(
    scenario: &Scenario,
    (ends, protocol): ([SocketAddr; 2], &Protocol),
    network: &mut Network,
) -> Vec<String> {
    let address = |end: SocketAddr| InterfaceAddress::with_generation(end.ip()).map(|(address, _)| address);
    let [Some(from), Some(to)] = ends.map(address) else { return Vec::new() };
    let link = |interface: Interface| scenario.links[interface.link()].name.clone();
    let route = network.route_of([from, to], model::flow_hash(protocol, ends));
    route.unwrap_or_default().into_iter().map(link).collect()
}
