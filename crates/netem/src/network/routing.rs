//! Shortest paths between forwarding nodes.

use super::{Interface, IpVersion, Node};
use std::collections::{BTreeMap, VecDeque};

/// Version of IP of packets, and their possible destinations: each packet goes to the nearest of these nodes.
pub(super) type Towards = (IpVersion, Vec<usize>);

/// Next hops towards the nodes for which they were computed.
#[derive(Clone, Debug, Default)]
pub(super) struct Routing {
    /// The outgoing interfaces of each node, by index of the node.
    towards: BTreeMap<Towards, Vec<Vec<Interface>>>,
}

impl Routing {
    /// The outgoing interfaces of the shortest paths from a forwarding node over the links that `carry` packets of the
    /// version, in the order of the links.
    pub(super) fn next_hops(
        &mut self,
        nodes: &[Node],
        owners: &[u32],
        (node, towards): (usize, Towards),
        carries: impl Fn(Interface) -> bool,
    ) -> &[Interface] {
        let compute = |towards: &Towards| next_hops(nodes, owners, &towards.1, carries);
        &self.towards.entry(towards).or_insert_with_key(compute)[node]
    }

    /// The nodes with several outgoing interfaces to one of the targets until now.
    pub(super) fn branches(&self) -> impl Iterator<Item = usize> + '_ {
        let several = |(node, ways): (usize, &Vec<Interface>)| (ways.len() > 1).then_some(node);
        self.towards.values().flat_map(move |nodes| nodes.iter().enumerate().filter_map(several))
    }
}

/// The outgoing interfaces of each node towards the nearest of the targets, by breadth-first search.
fn next_hops(
    nodes: &[Node],
    owners: &[u32],
    targets: &[usize],
    carries: impl Fn(Interface) -> bool,
) -> Vec<Vec<Interface>> {
    let neighbour = |interface: Interface| owners[interface.opposite().index()] as usize;
    let links = |node: usize| nodes[node].interfaces.iter().copied().filter(|&interface| carries(interface));
    let mut hops = vec![usize::MAX; nodes.len()];
    let mut reached: VecDeque<usize> = targets.iter().copied().collect();
    for &target in targets {
        hops[target] = 0;
    }
    while let Some(node) = reached.pop_front() {
        for next in links(node).map(neighbour) {
            if hops[next] == usize::MAX && !nodes[next].host {
                hops[next] = hops[node] + 1;
                reached.push_back(next);
            }
        }
    }
    let out = |node: usize| {
        let closer = |interface: &Interface| {
            let next = hops[neighbour(*interface)];
            next != usize::MAX && next + 1 == hops[node]
        };
        if hops[node] == usize::MAX || nodes[node].host {
            return Vec::new();
        }
        links(node).filter(closer).collect()
    };
    (0..nodes.len()).map(out).collect()
}
