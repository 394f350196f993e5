//! Nodes, interfaces and addresses, derived from links and flows.
//!
//! Every link has an interface at each end, whose addresses follow from the link's index. A link carries packets of one
//! version of IP or of both, and packets of a version travel over links of that version only. A node at the end of
//! a flow is a host; all others forward. Hosts never forward. Routers choose among equally short paths by a hash of
//! the flow.

mod address;
mod attached;
mod error;
mod forwarding;
mod node;
mod routing;
mod ways;

pub use address::{InterfaceAddress, MAX_ADDRESSES, MAX_FURTHER_GENERATION, MAX_RENUMBERED_LINKS};
pub use attached::LinkAddresses;
pub use error::BuildError;
pub use forwarding::{FlowHash, Forwarding, RouterTable};
pub use node::{Interface, IpVersion, IpVersions, MAX_LINKS, Node, Scope};

use attached::Attached;
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
    attached: Attached,
    routing: Routing,
    /// Routing tables of the hosts that have one.
    tables: BTreeMap<u32, OutgoingInterfaces>,
    /// Settings of the routers that have some.
    routers: BTreeMap<u32, Router>,
    /// True if other routers choose among equally short paths.
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
    /// hosts of each flow can reach each other. The links have these `addresses`: if there are none, one IPv4 address at
    /// each end. The packets of a host leave by the link of their source
    /// address, unless the host has one of the `tables`. Routers forward by `forwarding`.
    ///
    /// # Errors
    ///
    /// If a flow's host has no link, no route connects the hosts of a flow, or routers send packets in a circle.
    ///
    /// # Panics
    ///
    /// If a table names a link that does not belong to the host or router, or a router that has no link; if there are
    /// addresses for some links only.
    pub fn new(
        (links, addresses): (&[[&str; 2]], &[LinkAddresses]),
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
            attached: Attached::new(links.len(), addresses),
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
            // All pairs are computed, so that a missing route is found now.
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

    /// The pairs of addresses of a flow's hosts that routes connect in both directions, the sending host's first.
    pub fn connected_pairs(&mut self, flow: usize) -> impl Iterator<Item = [InterfaceAddress; 2]> + '_ {
        let [from, to] = self.ends(flow).map(|node| self.nodes[node].interfaces.clone());
        let interfaces: Vec<_> = from.iter().flat_map(|&f| to.iter().map(move |&t| [f, t])).collect();
        interfaces.into_iter().flat_map(move |ends| {
            let versions = [IpVersion::V4, IpVersion::V6].into_iter();
            let connected = |version: &IpVersion| {
                let [from, to] = ends.map(|end| InterfaceAddress::first(end, *version));
                let has_address = |interface| self.attached.count(interface, *version) > 0;
                ends.into_iter().all(has_address)
                    && self.route(from, to).is_some()
                    && self.route(to, from).is_some()
            };
            let versions: Vec<_> = versions.filter(connected).collect();
            let attached = &self.attached;
            let pairs = versions.into_iter().flat_map(|version| {
                let [from, to] = ends.map(|end| attached.addresses(end, version));
                from.flat_map(move |from| to.clone().map(move |to| [from, to]))
            });
            pairs.collect::<Vec<_>>()
        })
    }

    /// The addresses of an interface, those of IPv4 first; none if it shares that of another link.
    pub fn addresses(&self, interface: Interface) -> impl Iterator<Item = InterfaceAddress> {
        let of = |version| self.attached.addresses(interface, version);
        of(IpVersion::V4).chain(of(IpVersion::V6))
    }

    /// True if an interface has this address.
    pub fn has(&self, address: InterfaceAddress) -> bool {
        address.number < self.attached.count(address.interface, address.version)
    }

    /// True if a link direction leads to an interface with an address.
    pub fn leads_to(&self, direction: Interface, to: InterfaceAddress) -> bool {
        self.attached.is_at(to, direction.opposite())
    }

    /// The link directions, in order, of a packet from one address to another: out of the interface of the first
    /// address, or out of the one in its host's table for the second; the shortest path through forwarding nodes,
    /// and in through an interface with the second address. `None` if there is no such path. Where several are equally
    /// short, the packets of a flow take the path of [`route_of`](Self::route_of), not this one.
    pub fn route(&mut self, from: InterfaceAddress, to: InterfaceAddress) -> Option<Vec<Interface>> {
        self.route_of([from, to], FlowHash::default())
    }

    /// Like [`route`](Self::route), for the packets of a flow.
    pub fn route_of(&mut self, [from, to]: [InterfaceAddress; 2], hash: FlowHash) -> Option<Vec<Interface>> {
        if from.interface.index() >= self.owners.len() || to.interface.index() >= self.owners.len() {
            return None;
        }
        let out = self.leaves_by(from, to)?;
        self.route_out(out, to, hash)
    }

    /// The link directions, in order, of a flow's packet to an address out of an interface, for any source address.
    /// `None` if there is no such path.
    pub fn route_out(
        &mut self,
        from: Interface,
        to: InterfaceAddress,
        hash: FlowHash,
    ) -> Option<Vec<Interface>> {
        if from.index() >= self.owners.len()
            || to.interface.index() >= self.owners.len()
            || !self.attached.carries(from, to.version)
        {
            return None;
        }
        if self.attached.is_at(to, from.opposite()) {
            return Some(vec![from]);
        }
        let first = self.owner(from.opposite());
        if self.attached.is_at(to, from) || self.nodes[first].host || self.last_routers(to).is_empty() {
            return None;
        }
        let mut route = vec![from];
        self.walk(first, to, hash, &mut route)?;
        Some(route)
    }

    /// The interface by which a packet from one address to another leaves its host; `None` if none carries packets of
    /// their version.
    fn leaves_by(&mut self, from: InterfaceAddress, to: InterfaceAddress) -> Option<Interface> {
        let carries = |interface: &Interface| self.attached.carries(*interface, to.version);
        if let Some(table) = self.tables.get(&self.owners[from.interface.index()]) {
            let route = table.routes.get(&to.link()).copied().filter(carries);
            return route.or_else(|| Some(table.default).filter(carries));
        }
        if !self.attached.is_shared(from.interface) {
            return Some(from.interface);
        }
        // A shared source address belongs to several interfaces; the nearest to the destination is used.
        let all: Vec<_> = self.attached.interfaces(from).collect();
        let routes = all.into_iter().filter_map(|interface| {
            let route = self.route_out(interface, to, FlowHash::default())?;
            Some((interface, route.len()))
        });
        routes.min_by_key(|&(_, hops)| hops).map(|(interface, _)| interface)
    }

    /// The link directions, in order, of a packet from a forwarding node itself to an address. `None` if there is no such
    /// path, or the node is a host.
    pub fn route_from(
        &mut self,
        node: usize,
        to: InterfaceAddress,
        hash: FlowHash,
    ) -> Option<Vec<Interface>> {
        if self.nodes[node].host || self.last_routers(to).is_empty() {
            return None;
        }
        let mut route = Vec::new();
        self.walk(node, to, hash, &mut route)?;
        Some(route)
    }

    /// The forwarding nodes with a link to an interface that has an address.
    fn last_routers(&self, to: InterfaceAddress) -> Vec<usize> {
        let nodes = self.attached.interfaces(to).map(|interface| self.owner(interface.opposite()));
        nodes.filter(|&node| !self.nodes[node].host).collect()
    }
}

#[cfg(test)]
mod tests;
