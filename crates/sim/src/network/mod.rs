//! Nodes, interfaces and addresses, made of a scenario's links and flows.
//!
//! Every link has an interface at each end, with an address of its own that follows from the link's place in the
//! scenario. A node at the end of a flow is a host; all others forward. Hosts never forward.

mod error;
mod routing;

pub use error::BuildError;

use crate::scenario::Scenario;
use core::net::Ipv4Addr;
use routing::Routing;
use std::collections::BTreeMap;

/// An end of a link, and at the same time the direction of the link that leaves from there: twice the link's index, plus
/// one for the second end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interface(pub u32);

impl Interface {
    /// The end `end` (0 or 1) of a link.
    pub const fn new(link: usize, end: usize) -> Self {
        Self((link * 2 + end) as u32)
    }

    /// The interface at the other end of the link.
    #[must_use]
    pub const fn opposite(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// Index of the link.
    pub const fn link(self) -> usize {
        self.0 as usize / 2
    }

    /// Which end of the link, 0 or 1.
    pub const fn end(self) -> usize {
        self.0 as usize % 2
    }

    /// The number as an index: of the interface, and of the direction that leaves from it.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its address: each link is a network of four addresses within 10.0.0.0/8.
    pub const fn address(self) -> Ipv4Addr {
        Ipv4Addr::from_bits((10 << 24) + (self.link() as u32) * 4 + self.end() as u32 + 1)
    }

    /// The interface that has this address, if it can be one.
    pub const fn of_address(address: Ipv4Addr) -> Option<Self> {
        let offset = address.to_bits().wrapping_sub(10 << 24);
        let host = offset % 4;
        if offset >= 1 << 24 || host == 0 || host == 3 { None } else { Some(Self(offset / 4 * 2 + host - 1)) }
    }
}

/// The most links that have addresses.
pub const MAX_LINKS: usize = 1 << 22;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name.
    pub name: String,
    /// At the end of a flow: does not forward.
    pub host: bool,
    /// Its ends of links, in the order of the links.
    pub interfaces: Vec<Interface>,
}

/// Who is connected to whom, and how packets get there.
#[derive(Clone, Debug)]
pub struct Network {
    nodes: Vec<Node>,
    /// Node of each interface.
    owners: Vec<u32>,
    /// Sending and receiving node of each flow.
    flows: Vec<[u32; 2]>,
    routing: Routing,
}

/// Makes the network of a scenario and makes sure that the hosts of each flow can reach each other.
///
/// # Errors
/// Hosts that have no link, or that no route connects.
pub fn build(scenario: &Scenario) -> Result<Network, BuildError> {
    if scenario.links.len() > MAX_LINKS {
        return Err(BuildError::TooManyLinks { links: scenario.links.len() });
    }
    let mut network =
        Network { nodes: Vec::new(), owners: Vec::new(), flows: Vec::new(), routing: Routing::default() };
    let mut by_name: BTreeMap<&str, u32> = BTreeMap::new();
    for (index, link) in scenario.links.iter().enumerate() {
        for (end, name) in link.between.iter().enumerate() {
            let node = *by_name.entry(name).or_insert_with(|| {
                network.nodes.push(Node { name: name.clone(), host: false, interfaces: Vec::new() });
                network.nodes.len() as u32 - 1
            });
            network.nodes[node as usize].interfaces.push(Interface::new(index, end));
            network.owners.push(node);
        }
    }
    for (flow, declared) in scenario.flows.iter().enumerate() {
        let find = |name: &String| {
            by_name.get(name.as_str()).copied().ok_or_else(|| BuildError::NoLink { flow, host: name.clone() })
        };
        let ends = [find(&declared.from)?, find(&declared.to)?];
        if ends[0] == ends[1] {
            return Err(BuildError::SameHost { flow, host: declared.from.clone() });
        }
        for node in ends {
            network.nodes[node as usize].host = true;
        }
        network.flows.push(ends);
    }
    for (flow, declared) in scenario.flows.iter().enumerate() {
        if network.connected_pairs(flow).next().is_none() {
            let hosts = Box::new([declared.from.clone(), declared.to.clone()]);
            return Err(BuildError::Unreachable { flow, hosts });
        }
    }
    Ok(network)
}

impl Network {
    /// All nodes, in order of appearance.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node that an interface belongs to.
    pub fn owner(&self, interface: Interface) -> usize {
        self.owners[interface.index()] as usize
    }

    /// Sending and receiving node of a flow.
    pub fn ends(&self, flow: usize) -> [usize; 2] {
        self.flows[flow].map(|node| node as usize)
    }

    /// The interfaces of the sending (0) or receiving (1) host of a flow.
    pub fn interfaces(&self, flow: usize, end: usize) -> &[Interface] {
        &self.nodes[self.ends(flow)[end]].interfaces
    }

    /// The pairs of a flow's interfaces that a route connects, the sending host's first.
    pub fn connected_pairs(&mut self, flow: usize) -> impl Iterator<Item = (Interface, Interface)> + '_ {
        let [from, to] = self.ends(flow).map(|node| self.nodes[node].interfaces.clone());
        let pairs: Vec<_> = from.iter().flat_map(|&f| to.iter().map(move |&t| (f, t))).collect();
        pairs.into_iter().filter(move |&(f, t)| self.route(f, t).is_some())
    }

    /// The link directions, in order, that a packet from one interface's address to another's takes: out of the first
    /// interface, the shortest way through forwarding nodes (the first link where several are equally short), and in
    /// through the second interface. `None` if there is no such way.
    pub fn route(&mut self, from: Interface, to: Interface) -> Option<Vec<Interface>> {
        if from.index() >= self.owners.len() || to.index() >= self.owners.len() {
            return None;
        }
        if to == from.opposite() {
            return Some(vec![from]);
        }
        let (first, last) = (self.owner(from.opposite()), self.owner(to.opposite()));
        if from == to || self.nodes[first].host || self.nodes[last].host {
            return None;
        }
        let mut route = vec![from];
        self.routing.walk(&self.nodes, &self.owners, [first, last], &mut route)?;
        route.push(to.opposite());
        Some(route)
    }
}

#[cfg(test)]
mod tests;
