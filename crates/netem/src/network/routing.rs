//! Shortest paths between forwarding nodes.

use super::{Interface, Node};
use std::collections::{BTreeMap, VecDeque};

/// Next hops towards the nodes for which they were computed.
#[derive(Clone, Debug, Default)]
pub(super) struct Routing {
    /// Per target node: the outgoing interfaces of each node, by index of the node.
    towards: BTreeMap<usize, Vec<Vec<Interface>>>,
}

impl Routing {
    /// The outgoing interfaces of the shortest paths from a forwarding node to another one, in the order of the links.
    pub(super) fn next_hops(
        &mut self,
        nodes: &[Node],
        owners: &[u32],
        [node, target]: [usize; 2],
    ) -> &[Interface] {
        &self.towards.entry(target).or_insert_with(|| next_hops(nodes, owners, target))[node]
    }

    /// The nodes with several outgoing interfaces to one of the targets until now.
    pub(super) fn branches(&self) -> impl Iterator<Item = usize> + '_ {
        let several = |(node, ways): (usize, &Vec<Interface>)| (ways.len() > 1).then_some(node);
        self.towards.values().flat_map(move |nodes| nodes.iter().enumerate().filter_map(several))
    }
}

/// The outgoing interfaces of each node towards `target`, by breadth-first search.
fn next_hops(nodes: &[Node], owners: &[u32], target: usize) -> Vec<Vec<Interface>> {
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
        if hops[node] == usize::MAX || nodes[node].host {
            return Vec::new();
        }
        nodes[node].interfaces.iter().filter(closer).copied().collect()
    };
    (0..nodes.len()).map(out).collect()
}
