//! Source routes of subflows through the gateways of a host.

use crate::model::{Flow, Protocol, Scenario};
use anabranch_middlebox::source_route::SourceRouter;
use anabranch_netem::network::Node;
use anabranch_netem::{FlowHash, Interface, InterfaceAddress, IpVersion, Network};
use core::fmt;
use std::collections::BTreeMap;

/// The hops of a source route, and the destination behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteByHops {
    /// Addresses of the listed routers.
    pub hops: Vec<InterfaceAddress>,
    /// Address of the other host.
    pub to: InterfaceAddress,
    /// The directions of all links, in order; where routers choose among several, those of one choice.
    pub links: Vec<Interface>,
}

/// The reason for which a connection has no source routes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceRouteError {
    /// The host has no gateways.
    NoGateways,
    /// The connection begins over IPv6.
    NotIpv4,
    /// No route leads from one node to another.
    NoRoute {
        /// The node at which the route would begin.
        from: String,
        /// The gateway, or the host at the end.
        to: String,
    },
}

impl fmt::Display for SourceRouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGateways => f.write_str("no gateways"),
            Self::NotIpv4 => f.write_str("IPv6 has no loose source routes"),
            Self::NoRoute { from, to } => write!(f, "no route over IPv4 leads from \"{from}\" to \"{to}\""),
        }
    }
}

impl Scenario {
    /// The source routes of a flow's connection, one for each gateway of its host; none if its path manager uses no
    /// gateways. A hop has the address with the shortest route from the node before, the first in the order of the links.
    ///
    /// # Errors
    ///
    /// If the flow needs source routes and cannot have them.
    pub fn source_routes(
        &self,
        network: &mut Network,
        (index, flow): (usize, &Flow),
    ) -> Result<Vec<RouteByHops>, SourceRouteError> {
        let Protocol::Mptcp(config) = &flow.protocol else { return Ok(Vec::new()) };
        if !config.path_manager.entry.uses_gateways {
            return Ok(Vec::new());
        }
        let host = self.hosts.iter().find(|host| host.name == flow.from);
        let gateways = host.map(|host| host.gateways.as_slice()).unwrap_or_default();
        if gateways.is_empty() {
            return Err(SourceRouteError::NoGateways);
        }
        let ends = self.first_pair(network, (index, flow));
        if ends[0].version != IpVersion::V4 {
            return Err(SourceRouteError::NotIpv4);
        }
        gateways.iter().map(|hops| route_by_hops(network, ends, hops)).collect()
    }

    /// True if some flow has source routes.
    pub fn uses_gateways(&self) -> bool {
        self.flows.iter().any(Flow::uses_gateways)
    }

    /// The routers at all nodes that are no hosts, for packets with source routes. The network learns all routes that
    /// flows use through gateways, so that it knows the choices among equally short ones.
    pub fn source_routers(&self, network: &mut Network) -> BTreeMap<usize, SourceRouter> {
        for (index, flow) in self.flows.iter().enumerate() {
            // The parser has refused scenarios with errors.
            let _ = self.source_routes(network, (index, flow));
        }
        let policies = self.routers.iter().map(|router| (router.name.as_str(), router.source_routes));
        let policies: BTreeMap<_, _> = policies.collect();
        let router = |(node, of): (usize, &Node)| {
            let policy = policies.get(of.name.as_str()).copied().unwrap_or_default();
            (!of.host).then(|| (node, SourceRouter::new(policy)))
        };
        network.nodes().iter().enumerate().filter_map(router).collect()
    }
}

/// The source route from one address to another through these routers.
fn route_by_hops(
    network: &mut Network,
    [from, to]: [InterfaceAddress; 2],
    names: &[String],
) -> Result<RouteByHops, SourceRouteError> {
    let mut at = Place::Host(from);
    let (mut hops, mut links) = (Vec::with_capacity(names.len()), Vec::new());
    for name in names {
        let error =
            |network: &Network| SourceRouteError::NoRoute { from: at.name(network), to: name.clone() };
        let node = network.nodes().iter().position(|node| node.name == *name);
        let node = node.ok_or_else(|| error(network))?;
        let interfaces = network.nodes()[node].interfaces.clone();
        let addresses = interfaces.into_iter().map(|by| InterfaceAddress::first(by, IpVersion::V4));
        let addresses: Vec<_> = addresses.filter(|address| network.has(*address)).collect();
        let reached = addresses.into_iter().filter_map(|hop| Some((at.route_to(network, hop)?, hop)));
        let nearest = reached.min_by_key(|(route, _)| route.len());
        let (route, hop) = nearest.ok_or_else(|| error(network))?;
        hops.push(hop);
        links.extend(route);
        at = Place::Router(node);
    }
    let Some(route) = at.route_to(network, to) else {
        let host = network.nodes()[network.owner(to.interface)].name.clone();
        return Err(SourceRouteError::NoRoute { from: at.name(network), to: host });
    };
    links.extend(route);
    Ok(RouteByHops { hops, to, links })
}

/// The beginning of a part of a route.
#[derive(Clone, Copy)]
enum Place {
    Host(InterfaceAddress),
    /// A forwarding node.
    Router(usize),
}

impl Place {
    /// The route to an address.
    fn route_to(self, network: &mut Network, to: InterfaceAddress) -> Option<Vec<Interface>> {
        match self {
            Self::Host(from) => network.route(from, to),
            Self::Router(node) => network.route_from(node, to, FlowHash::default()),
        }
    }

    fn name(self, network: &Network) -> String {
        let node = match self {
            Self::Host(from) => network.owner(from.interface),
            Self::Router(node) => node,
        };
        network.nodes()[node].name.clone()
    }
}
