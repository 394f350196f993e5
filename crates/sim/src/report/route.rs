//! The links of a path.

use crate::engine::Datapath;
use crate::scenario::Scenario;
use crate::scenario::model::{self, Protocol};
use anabranch_base::time::Time;
use anabranch_netem::{Interface, InterfaceAddress, Network};
use anabranch_wire::ip;
use core::net::SocketAddr;

/// A path of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// Its ends, that of the packets' sender first.
    pub ends: [SocketAddr; 2],
    /// The protocol of the flow.
    pub protocol: &'a Protocol,
    /// Index of the flow, and of the gateway through which source routes lead its packets.
    pub gateway: Option<(usize, u8)>,
}

/// The links that a path takes, which routers with network control may have chosen.
pub fn links_taken(
    scenario: &Scenario,
    path: Taken<'_>,
    (now, datapath): (Time, &mut Datapath),
) -> Vec<String> {
    let Taken { ends, protocol, gateway } = path;
    let through = gateway.and_then(|gateway| source_route((scenario, ends), gateway, datapath.network()));
    let route = match through {
        Some(route) => route,
        None => chosen_route((ends, protocol), (now, datapath)),
    };
    route.into_iter().map(|hop| scenario.links[hop.link()].name.clone()).collect()
}

/// The route between the ends of a path without a source route.
fn chosen_route(
    (ends, protocol): ([SocketAddr; 2], &Protocol),
    (now, datapath): (Time, &mut Datapath),
) -> Vec<Interface> {
    let route = hashed_route((ends, protocol), datapath.network());
    let transport = match protocol {
        Protocol::Tcp(_) | Protocol::Mptcp(_) => ip::protocol::TCP,
        Protocol::Udp => ip::protocol::UDP,
        Protocol::Sctp(_) => ip::protocol::SCTP,
    };
    let hash = model::flow_hash(protocol, ends);
    datapath.follow_choices(now, (transport, ends), (hash, route))
}

/// The route of a path through a gateway of a flow; `None` if there is none.
fn source_route(
    (scenario, [local, remote]): (&Scenario, [SocketAddr; 2]),
    (index, gateway): (usize, u8),
    network: &mut Network,
) -> Option<Vec<Interface>> {
    let flow = &scenario.flows[index];
    let routes = scenario.source_routes(network, (index, flow)).ok()?;
    let through = routes.into_iter().nth(gateway.into())?;
    // At each hop the packet has another destination, and so another hash.
    let hash = |to: InterfaceAddress| {
        let to = SocketAddr::new(scenario.address(to), remote.port());
        model::flow_hash(&flow.protocol, [local, to])
    };
    let from = InterfaceAddress::of(local.ip())?;
    let [first, further @ ..] = through.hops.as_slice() else { return None };
    let mut route = network.route_of([from, *first], hash(*first))?;
    let mut at = network.owner(first.interface);
    for &to in further.iter().chain([&through.to]) {
        route.extend(network.route_from(at, to, hash(to))?);
        at = network.owner(to.interface);
    }
    Some(route)
}

/// The route between the ends of a path that routers choose by a hash of the flow; empty if there is none.
pub fn hashed_route((ends, protocol): ([SocketAddr; 2], &Protocol), network: &mut Network) -> Vec<Interface> {
    let [Some(from), Some(to)] = ends.map(|end| InterfaceAddress::of(end.ip())) else { return Vec::new() };
    network.route_of([from, to], model::flow_hash(protocol, ends)).unwrap_or_default()
}
