//! Ways through a network: along shortest paths, or along the tables of routers that override them.

use super::forwarding::{FlowHash, Router};
use super::{BuildError, Interface, Network};
use std::collections::{BTreeSet, VecDeque};

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

    /// All steps of packets from one interface's address to another's: pairs of a link direction and the direction that
    /// may follow it. The first step has no earlier direction.
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
            let mut visits = vec![Visit::Missing; self.nodes.len()];
            for node in 0..self.nodes.len() {
                self.search_loop(node, to, &mut visits)?;
            }
        }
        Ok(())
    }

    /// Follows all ways from a node in depth. No recursion: a path may have as many nodes as the network.
    fn search_loop(&mut self, from: usize, to: Interface, visits: &mut [Visit]) -> Result<(), BuildError> {
        // The nodes of the present path, each with the ways that remain, the next one at the end.
        let mut path: Vec<(usize, Vec<Interface>)> = Vec::new();
        let mut reached = Some(from);
        loop {
            if let Some(node) = reached.take().filter(|&node| !self.nodes[node].host) {
                match visits[node] {
                    Visit::Missing => {
                        visits[node] = Visit::OnPath;
                        let mut ways = self.ways(node, to);
                        ways.retain(|&way| way != to.opposite());
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
    /// No way from the node leads in a circle.
    Done,
}
