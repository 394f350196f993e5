//! Choices of routers: among equally short paths, and by tables that override them.

use super::{BuildError, Interface, Network};
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Hash of a packet's flow, by which routers choose among equally short paths (RFC 2992).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowHash(u64);

impl FlowHash {
    /// The hash of packets with these addresses, this transport and, except for fragments, these ports.
    pub fn new([source, destination]: [IpAddr; 2], protocol: u8, ports: Option<[u16; 2]>) -> Self {
        let [source_port, destination_port] = ports.unwrap_or_default().map(u64::from);
        let mut hash = mixed(u64::from(protocol) << 32 | source_port << 16 | destination_port);
        for address in [source, destination] {
            let bits = match address {
                IpAddr::V4(address) => address.to_bits().into(),
                IpAddr::V6(address) => address.to_bits(),
            };
            hash = mixed(hash ^ (bits >> 64) as u64);
            hash = mixed(hash ^ bits as u64);
        }
        Self(hash)
    }

    /// The choice of a node among this number of ways, below it; different nodes choose independently.
    fn choose(self, seed: u64, node: usize, ways: usize) -> usize {
        let hash = mixed(self.0 ^ mixed(seed ^ mixed(node as u64 + 1)));
        ((u128::from(hash) * ways as u128) >> 64) as usize
    }
}

/// Mixes 64 bits, so that each bit of the result depends on all of them (`SplitMix64`; Steele, Lea, Flood 2014).
const fn mixed(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Forwarding at routers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding<'a> {
    /// Whether routers choose among equally short paths by the hash of a flow; otherwise they take the first link.
    pub ecmp: bool,
    /// Seed of the choice.
    pub seed: u64,
    /// Routers with settings of their own.
    pub routers: Vec<RouterTable<'a>>,
}

/// Settings of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterTable<'a> {
    /// The router.
    pub name: &'a str,
    /// Whether it chooses among equally short paths.
    pub ecmp: bool,
    /// Index of its link to all hosts without a route that it is not connected to; the shortest path, if missing.
    pub default: Option<usize>,
    /// Routes to the hosts' addresses at single links: the index of that link, and of the router's own link.
    pub routes: Vec<[usize; 2]>,
}

/// The settings of a router, as interfaces.
#[derive(Clone, Debug)]
pub(super) struct Router {
    ecmp: bool,
    default: Option<Interface>,
    /// By the link with the address.
    routes: BTreeMap<usize, Interface>,
}

impl Router {
    /// The settings of a table, whose links are those of the router.
    ///
    /// # Panics
    ///
    /// If a link does not belong to the router.
    pub(super) fn new(table: &RouterTable<'_>, links: &[[&str; 2]]) -> Self {
        let own = |link: usize| {
            let end = links[link].iter().position(|&name| name == table.name);
            Interface::new(link, end.expect("a link of the router"))
        };
        Self {
            ecmp: table.ecmp,
            default: table.default.map(own),
            routes: table.routes.iter().map(|&[to, by]| (to, own(by))).collect(),
        }
    }

    fn overrides(&self) -> bool {
        self.default.is_some() || !self.routes.is_empty()
    }
}

impl Network {
    /// Sets the seed of the routers' choices.
    pub const fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Whether a router may choose among several ways for packets of a flow.
    pub fn has_alternatives(&self) -> bool {
        self.routing.branches().any(|node| self.is_balancing(node))
    }

    /// All directions that packets from one interface's address to another's may take, without order; none if there
    /// is no path.
    pub fn hops(&mut self, from: Interface, to: Interface) -> BTreeSet<Interface> {
        self.steps(from, to).into_iter().flat_map(|(before, next)| before.into_iter().chain([next])).collect()
    }

    /// All pairs of consecutive directions that packets from one interface's address to another's may take; the first
    /// direction follows none.
    pub fn steps(&mut self, from: Interface, to: Interface) -> Vec<(Option<Interface>, Interface)> {
        if self.route(from, to).is_none() {
            return Vec::new();
        }
        let first = self.leaves_by(from, to);
        let mut steps = vec![(None, first)];
        let (mut known, mut queue) = (BTreeSet::from([first]), VecDeque::from([first]));
        while let Some(before) = queue.pop_front() {
            if before == to.opposite() {
                continue;
            }
            for way in self.ways(self.owner(before.opposite()), to) {
                steps.push((Some(before), way));
                if known.insert(way) {
                    queue.push_back(way);
                }
            }
        }
        steps
    }

    /// Appends the directions from a forwarding node to an interface's address; `None` if there is no path.
    pub(super) fn walk(
        &mut self,
        node: usize,
        to: Interface,
        hash: FlowHash,
        route: &mut Vec<Interface>,
    ) -> Option<()> {
        let mut at = node;
        // A path without a loop visits each node at most once.
        for _ in 0..self.nodes.len() {
            if self.nodes[at].host {
                return None;
            }
            let ways = self.ways(at, to);
            let &way = ways.get(hash.choose(self.seed, at, ways.len()))?;
            route.push(way);
            if way == to.opposite() {
                return Some(());
            }
            at = self.owner(way.opposite());
        }
        None
    }

    /// The interfaces by which a forwarding node may send packets to an interface's address.
    fn ways(&mut self, node: usize, to: Interface) -> Vec<Interface> {
        let router = self.routers.get(&(node as u32));
        if let Some(&way) = router.and_then(|router| router.routes.get(&to.link())) {
            return vec![way];
        }
        let last = self.owner(to.opposite());
        if node == last {
            return vec![to.opposite()];
        }
        if let Some(way) = router.and_then(|router| router.default) {
            return vec![way];
        }
        let is_balancing = self.is_balancing(node);
        let shortest = self.routing.next_hops(&self.nodes, &self.owners, [node, last]);
        let taken = if is_balancing { shortest.len() } else { shortest.len().min(1) };
        shortest[..taken].to_vec()
    }

    /// Whether a router chooses among equally short paths.
    fn is_balancing(&self, node: usize) -> bool {
        self.routers.get(&(node as u32)).map_or(self.ecmp, |router| router.ecmp)
    }

    /// Checks that the routers' tables send no packet in a circle.
    ///
    /// # Errors
    ///
    /// The nodes of a circle.
    pub(super) fn check_loops(&mut self) -> Result<(), BuildError> {
        if !self.routers.values().any(Router::overrides) {
            return Ok(());
        }
        let hosts = self.nodes.iter().filter(|node| node.host);
        let destinations: Vec<Interface> = hosts.flat_map(|node| node.interfaces.iter().copied()).collect();
        for to in destinations {
            if self.nodes[self.owner(to.opposite())].host {
                continue;
            }
            let mut done = BTreeSet::new();
            for node in 0..self.nodes.len() {
                if !self.nodes[node].host {
                    self.search_loop(node, to, &mut Vec::new(), &mut done)?;
                }
            }
        }
        Ok(())
    }

    /// Follows all ways from a node in depth; `path` has the nodes before it, `done` those without a circle.
    fn search_loop(
        &mut self,
        node: usize,
        to: Interface,
        path: &mut Vec<usize>,
        done: &mut BTreeSet<usize>,
    ) -> Result<(), BuildError> {
        if let Some(begin) = path.iter().position(|&before| before == node) {
            let names = path[begin..].iter().map(|&node| self.nodes[node].name.clone());
            return Err(BuildError::Loop { nodes: names.collect(), link: to.link() });
        }
        if done.contains(&node) || self.nodes[node].host {
            return Ok(());
        }
        path.push(node);
        for way in self.ways(node, to) {
            if way != to.opposite() {
                self.search_loop(self.owner(way.opposite()), to, path, done)?;
            }
        }
        path.pop();
        done.insert(node);
        Ok(())
    }
}
