//! Shortest paths between forwarding nodes.

use super::{Interface, Node};
use std::collections::{BTreeMap, VecDeque};

/// Next hops towards the nodes for which they were computed.
#[derive(Clone, Debug, Default)]
pub(super) struct Routing {
    /// Per target node: the outgoing interface of each node, by index of the node.
    towards: BTreeMap<usize, Vec<Option<Interface>>>,
}

impl Routing {
    /// Appends the path from the first to the last of two forwarding nodes; `None` if there is none.
    pub(super) fn walk(
        &mut self,
        nodes: &[Node],
        owners: &[u32],
        [first, last]: [usize; 2],
        route: &mut Vec<Interface>,
    ) -> Option<()> {
        let next = self.towards.entry(last).or_insert_with(|| next_hops(nodes, owners, last));
        let mut at = first;
        while at != last {
            let out = next[at]?;
            route.push(out);
            at = owners[out.opposite().index()] as usize;
        }
        Some(())
    }
}

/// The outgoing interface of each node towards `target`, by breadth-first search. Of equally short paths the one
/// with the first link is used.
fn next_hops(nodes: &[Node], owners: &[u32], target: usize) -> Vec<Option<Interface>> {
    let neighbour = |interface: &Interface| owners[interface.opposite().index()] as usize;
    let mut hops = vec![usize::MAX; nodes.len()];
    let mut reached = VecDeque::from([target]);
    hops[target] = 0;
    while let Some(node) = reached.pop_front() {
        for next in nodes[node].interfaces.iter().map(neighbour) {
            if hops[next] == usize::MAX && !nodes[next].host {
                hops[next] = hops[node] + 1;
                reached.push_back(next);
            }
        }
    }
    let out = |node: usize| {
        let closer = |interface: &&Interface| {
            let next = hops[neighbour(interface)];
            next != usize::MAX && next + 1 == hops[node]
        };
        if hops[node] == usize::MAX { None } else { nodes[node].interfaces.iter().find(closer).copied() }
    };
    (0..nodes.len()).map(out).collect()
}
