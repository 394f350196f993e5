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
