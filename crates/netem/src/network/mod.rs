//! Nodes, interfaces and addresses, derived from links and flows.
//!
//! Every link has an interface at each end, whose address follows from the link's index. A node at the end of
//! a flow is a host; all others forward. Hosts never forward. Routers choose among equally short paths by a hash of
//! the flow.

mod error;
mod forwarding;
mod node;
mod routing;
mod ways;

pub use error::BuildError;
pub use forwarding::{FlowHash, Forwarding, RouterTable};
pub use node::{Interface, IpVersion, MAX_LINKS, MAX_RENUMBERED_LINKS, Node, Scope};

use forwarding::Router;
use routing::Routing;
use std::collections::BTreeMap;

/// The routing table of a host: its packets leave by these links, independently of their source address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<'a> {
    /// The host.
    pub host: &'a str,
    /// Index of the link for all destinations without a route.
    pub default: usize,
    /// Routes to single addresses: index of the link that has the address at its other end, and of the host's
    /// own link.
    pub routes: Vec<[usize; 2]>,
}

/// The nodes and their connections, and routing between them.
#[derive(Clone, Debug)]
pub struct Network {
    nodes: Vec<Node>,
    /// Node of each interface.
    owners: Vec<u32>,
    /// Sending and receiving node of each flow.
    flows: Vec<[u32; 2]>,
    routing: Routing,
    /// Routing tables of the hosts that have one.
    tables: BTreeMap<u32, OutgoingInterfaces>,
    /// Settings of the routers that have some.
    routers: BTreeMap<u32, Router>,
    /// Whether other routers choose among equally short paths.
    ecmp: bool,
    /// Seed of the routers' choices.
    seed: u64,
}

/// The interfaces by which a node's packets leave.
#[derive(Clone, Debug)]
struct OutgoingInterfaces {
    default: Interface,
    /// Links whose addresses have a separate route, and the interface of this route.
    routes: BTreeMap<usize, Interface>,
}

impl Network {
    /// The network of links between two nodes each, and of flows from one host to another; checks that the
    /// hosts of each flow can reach each other. The packets of a host leave by the link of their source
    /// address, unless the host has one of the `tables`. Routers forward by `forwarding`.
    ///
    /// # Errors
    ///
    /// If a flow's host has no link, no route connects the hosts of a flow, or routers send packets in a circle.
    ///
    /// # Panics
    ///
    /// If a table names a link that does not belong to the host or router, or a router that has no link.
    pub fn new(
        links: &[[&str; 2]],
        flows: &[[&str; 2]],
        tables: &[Table<'_>],
        forwarding: &Forwarding<'_>,
    ) -> Result<Self, BuildError> {
        if links.len() > MAX_LINKS {
            return Err(BuildError::TooManyLinks { links: links.len() });
        }
        let mut network = Self {
            nodes: Vec::new(),
            owners: Vec::new(),
            flows: Vec::new(),
            routing: Routing::default(),
            tables: BTreeMap::new(),
            routers: BTreeMap::new(),
            ecmp: forwarding.ecmp,
            seed: forwarding.seed,
        };
        let mut by_name: BTreeMap<&str, u32> = BTreeMap::new();
        for (index, between) in links.iter().enumerate() {
            for (end, &name) in between.iter().enumerate() {
                let node = *by_name.entry(name).or_insert_with(|| {
                    network.nodes.push(Node { name: name.to_owned(), host: false, interfaces: Vec::new() });
                    network.nodes.len() as u32 - 1
                });
                network.nodes[node as usize].interfaces.push(Interface::new(index, end));
                network.owners.push(node);
            }
        }
        for (flow, hosts) in flows.iter().enumerate() {
            let find = |name: &str| {
                by_name.get(name).copied().ok_or_else(|| BuildError::NoLink { flow, host: name.to_owned() })
            };
            let ends = [find(hosts[0])?, find(hosts[1])?];
            if ends[0] == ends[1] {
                return Err(BuildError::SameHost { flow, host: hosts[0].to_owned() });
            }
            for node in ends {
                network.nodes[node as usize].host = true;
            }
            network.flows.push(ends);
        }
        for table in tables {
            let own = |link: usize| {
                let end = links[link].iter().position(|&name| name == table.host);
                Interface::new(link, end.expect("a link of the host"))
            };
            let routes = table.routes.iter().map(|&[to, by]| (to, own(by))).collect();
            network
                .tables
                .insert(by_name[table.host], OutgoingInterfaces { default: own(table.default), routes });
        }
        for table in &forwarding.routers {
            network.routers.insert(by_name[table.name], Router::new(table, links));
        }
        network.check_loops()?;
        for (flow, hosts) in flows.iter().enumerate() {
            // All pairs, so that the routes of all packets are known.
            if network.connected_pairs(flow).count() == 0 {
                let hosts = Box::new(hosts.map(str::to_owned));
                return Err(BuildError::Unreachable { flow, hosts });
            }
        }
        Ok(network)
    }

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

    /// The pairs of a flow's interfaces that routes connect in both directions, the sending host's first.
    pub fn connected_pairs(&mut self, flow: usize) -> impl Iterator<Item = (Interface, Interface)> + '_ {
        let [from, to] = self.ends(flow).map(|node| self.nodes[node].interfaces.clone());
        let pairs: Vec<_> = from.iter().flat_map(|&f| to.iter().map(move |&t| (f, t))).collect();
        pairs.into_iter().filter(move |&(f, t)| self.route(f, t).is_some() && self.route(t, f).is_some())
    }

    /// The link directions, in order, of a packet from one interface's address to another's: out of the first
    /// interface, or out of the one in its host's table for the second; the shortest path through forwarding nodes,
    /// and in through the second interface. `None` if there is no such path. Where several are equally short, the
    /// packets of a flow take the path of [`route_of`](Self::route_of), not this one.
    pub fn route(&mut self, from: Interface, to: Interface) -> Option<Vec<Interface>> {
        self.route_of([from, to], FlowHash::default())
    }

    /// Like [`route`](Self::route), for the packets of a flow.
    pub fn route_of(&mut self, [from, to]: [Interface; 2], hash: FlowHash) -> Option<Vec<Interface>> {
        if from.index() >= self.owners.len() {
            return None;
        }
        self.route_out(self.leaves_by(from, to), to, hash)
    }

    /// The link directions, in order, of a flow's packet to an interface's address out of another interface, for
    /// any source address. `None` if there is no such path.
    pub fn route_out(&mut self, from: Interface, to: Interface, hash: FlowHash) -> Option<Vec<Interface>> {
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
        self.walk(first, to, hash, &mut route)?;
        Some(route)
    }

    /// The interface by which a packet from one interface's address to another's leaves its host.
    fn leaves_by(&self, from: Interface, to: Interface) -> Interface {
        self.tables
            .get(&self.owners[from.index()])
            .map_or(from, |table| table.routes.get(&to.link()).copied().unwrap_or(table.default))
    }

    /// The link directions, in order, of a packet from a forwarding node itself to an interface's address.
    /// `None` if there is no such path, or the node is a host.
    pub fn route_from(&mut self, node: usize, to: Interface, hash: FlowHash) -> Option<Vec<Interface>> {
        let last = self.owner(to.opposite());
        if self.nodes[node].host || self.nodes[last].host {
            return None;
        }
        let mut route = Vec::new();
        self.walk(node, to, hash, &mut route)?;
        Some(route)
    }
}

#[cfg(test)]
mod tests;
