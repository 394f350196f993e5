//! Routes through a network: along shortest paths, or along the tables of routers that override them.

use super::forwarding::{FlowHash, Router};
use super::{BuildError, Interface, InterfaceAddress, IpVersion, Network};
use std::collections::{BTreeSet, VecDeque};

impl Network {
    /// Sets the seed of the routers' choices.
    pub const fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// True if a router may choose among several routes for packets of a flow.
    pub fn has_alternatives(&self) -> bool {
        let shared = self.attached.shared().flat_map(|interfaces| {
            // A router with links to several of the interfaces that share an address.
            let mut nodes: Vec<_> = interfaces.map(|interface| self.owner(interface.opposite())).collect();
            nodes.sort_unstable();
            nodes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect::<Vec<_>>()
        });
        self.routing.branches().chain(shared).any(|node| self.is_balancing(node))
    }

    /// All directions that packets from one address to another may take, without order; none if there is no path.
    pub fn hops(&mut self, from: InterfaceAddress, to: InterfaceAddress) -> BTreeSet<Interface> {
        self.steps(from, to).into_iter().flat_map(|(before, next)| before.into_iter().chain([next])).collect()
    }

    /// All steps of packets from one address to another: pairs of a link direction and the direction that
    /// may follow it. The first step has no earlier direction.
    pub fn steps(
        &mut self,
        from: InterfaceAddress,
        to: InterfaceAddress,
    ) -> Vec<(Option<Interface>, Interface)> {
        let Some(first) = self.route(from, to).and_then(|route| route.first().copied()) else {
            return Vec::new();
        };
        let mut steps = vec![(None, first)];
        let (mut known, mut queue) = (BTreeSet::from([first]), VecDeque::from([first]));
        while let Some(before) = queue.pop_front() {
            if self.attached.is_at(to, before.opposite()) {
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

    /// Appends the directions from a forwarding node to an address; `None` if there is no path.
    pub(super) fn walk(
        &mut self,
        node: usize,
        to: InterfaceAddress,
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
            if self.attached.is_at(to, way.opposite()) {
                return Some(());
            }
            at = self.owner(way.opposite());
        }
        None
    }

    /// The interfaces by which a forwarding node may send packets to an address.
    fn ways(&mut self, node: usize, to: InterfaceAddress) -> Vec<Interface> {
        let mut ways = self.all_ways(node, to);
        if !self.is_balancing(node) {
            ways.truncate(1);
        }
        ways
    }

    /// The interfaces by which a forwarding node could send packets to an address if it chose among equally short
    /// paths.
    pub fn all_ways(&mut self, node: usize, to: InterfaceAddress) -> Vec<Interface> {
        let router = self.routers.get(&(node as u32));
        let carries = |interface: &Interface| self.attached.carries(*interface, to.version);
        if let Some(way) = router.and_then(|router| router.routes.get(&to.link()).copied()).filter(carries) {
            return vec![way];
        }
        let here = |interface: &Interface| self.owner(*interface) == node;
        let last = self.attached.interfaces(to).map(Interface::opposite).filter(here);
        let mut ways: Vec<_> = last.collect();
        if ways.is_empty() {
            if let Some(way) = router.and_then(|router| router.default).filter(carries) {
                return vec![way];
            }
            let targets = self.last_routers(to);
            let carries = |interface| self.attached.carries(interface, to.version);
            let shortest =
                self.routing.next_hops(&self.nodes, &self.owners, (node, (to.version, targets)), carries);
            ways = shortest.to_vec();
        }
        ways
    }

    /// True if a router chooses among equally short paths.
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
        let interfaces = hosts.flat_map(|node| node.interfaces.iter().copied());
        let first = |interface| {
            let all =
                [IpVersion::V4, IpVersion::V6].map(|version| InterfaceAddress::first(interface, version));
            all.into_iter().filter(|address| self.has(*address))
        };
        let destinations: Vec<InterfaceAddress> = interfaces.flat_map(first).collect();
        for to in destinations {
            if self.last_routers(to).is_empty() {
                continue;
            }
            let mut visits = vec![Visit::Missing; self.nodes.len()];
            for node in 0..self.nodes.len() {
                self.search_loop(node, to, &mut visits)?;
            }
        }
        Ok(())
    }

    /// Follows all routes from a node in depth. No recursion: a path may have as many nodes as the network.
    fn search_loop(
        &mut self,
        from: usize,
        to: InterfaceAddress,
        visits: &mut [Visit],
    ) -> Result<(), BuildError> {
        // The nodes of the present path, each with the routes that remain, the next one at the end.
        let mut path: Vec<(usize, Vec<Interface>)> = Vec::new();
        let mut reached = Some(from);
        loop {
            if let Some(node) = reached.take().filter(|&node| !self.nodes[node].host) {
                match visits[node] {
                    Visit::Missing => {
                        visits[node] = Visit::OnPath;
                        let mut ways = self.ways(node, to);
                        ways.retain(|&way| !self.attached.is_at(to, way.opposite()));
                        ways.reverse();
                        path.push((node, ways));
                    }
                    Visit::OnPath => {
                        let circle = path.iter().skip_while(|&&(before, _)| before != node);
                        let nodes = circle.map(|&(node, _)| self.nodes[node].name.clone()).collect();
                        return Err(BuildError::Loop { nodes, link: to.link() });
                    }
                    Visit::Done => {}
                }
            }
            let Some((node, ways)) = path.last_mut() else { return Ok(()) };
            if let Some(way) = ways.pop() {
                reached = Some(self.owner(way.opposite()));
            } else {
                visits[*node] = Visit::Done;
                path.pop();
            }
        }
    }
}

/// The state of a node in the search for circles.
#[derive(Clone, Copy)]
enum Visit {
    Missing,
    /// The present path leads through the node.
    OnPath,
    /// No route from the node leads in a circle.
    Done,
}
