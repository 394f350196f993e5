//! Checks that the hosts of every flow can reach each other.

use super::flow::Placed;
use crate::error::{Fault, Origin, quoted};
use crate::model::{Flow, Link};
use crate::suggest::remedy;
use std::collections::{BTreeMap, BTreeSet};

/// Checks that every host has a link, and that a route connects the two hosts of each connection: a link
/// between them, or through forwarding nodes. Hosts do not forward.
pub(super) fn check(links: &[Link], flows: &[Placed]) -> Result<(), Fault> {
    let network = Network::of(links);
    for placed in flows {
        let through = placed.flow.through.iter().map(|host| ("through", host));
        for (key, host) in [("from", &placed.flow.from), ("to", &placed.flow.to)].into_iter().chain(through) {
            network.known(key, host, placed.origin_of(key), &placed.flow.name)?;
        }
    }
    let hosts: BTreeSet<&str> = flows
        .iter()
        .flat_map(|Placed { flow, .. }| [flow.from.as_str(), flow.meets(), flow.to.as_str()])
        .collect();
    let everywhere = network.areas(links, |_| true);
    let forwarding = network.areas(links, |node| !hosts.contains(node));
    let apart = |placed: &Placed, [from, to]: [&str; 2], key| {
        let (flow, from_shown, to_shown) = (quoted(&placed.flow.name), quoted(from), quoted(to));
        let [a, b] = [from, to].map(|node| everywhere[network.indices[node]]);
        let message = if a == b {
            format!(
                "flow {flow}: {to_shown} cannot be reached from {from_shown}, because every route leads through a \
                 host, and a node at the end of a flow does not forward; put a router between them"
            )
        } else {
            format!("flow {flow}: no links connect {from_shown} with {to_shown}; add the missing [[link]]")
        };
        Err(Fault::new(placed.origin_of(key), message))
    };
    for placed in flows {
        let Flow { from, to, through, name, .. } = &placed.flow;
        let own = [from, placed.flow.meets()];
        if !network.connected(own, &hosts, &forwarding) {
            return apart(placed, own, if through.is_some() { "through" } else { "to" });
        }
        if !network.pairs(links, own, (&hosts, &forwarding)).any(|pair| placed.flow.begins_on(pair)) {
            let message = format!(
                "flow {}: no route connects its hosts by its initial_path; name other links",
                quoted(name)
            );
            return Err(Fault::new(placed.origin_of("initial_path"), message));
        }
        if let Some(proxy) = through
            && !network.connected([proxy, to], &hosts, &forwarding)
        {
            return apart(placed, [proxy, to], "to");
        }
    }
    Ok(())
}

struct Network<'a> {
    /// Nodes by index.
    names: Vec<&'a str>,
    /// Nodes by name.
    indices: BTreeMap<&'a str, usize>,
    /// Neighbours of each node.
    neighbours: Vec<BTreeSet<usize>>,
}

impl<'a> Network<'a> {
    fn of(links: &'a [Link]) -> Self {
        let mut network = Self { names: Vec::new(), indices: BTreeMap::new(), neighbours: Vec::new() };
        for link in links {
            let [a, b] = [&link.between[0], &link.between[1]].map(|node| {
                let next = network.indices.len();
                let index = *network.indices.entry(node.as_str()).or_insert(next);
                if index == next {
                    network.names.push(node);
                    network.neighbours.push(BTreeSet::new());
                }
                index
            });
            network.neighbours[a].insert(b);
            network.neighbours[b].insert(a);
        }
        network
    }

    fn known(&self, key: &str, host: &str, origin: Origin, flow: &str) -> Result<(), Fault> {
        if self.indices.contains_key(host) {
            return Ok(());
        }
        let names: Vec<_> = self.indices.keys().copied().collect();
        let remedy = remedy(host, &names, "nodes");
        let message =
            format!("{key} of flow {} is {}, which no link leads to; {remedy}", quoted(flow), quoted(host));
        Err(Fault::new(origin, message))
    }

    /// For each node the smallest index of a node that it reaches through links whose nodes all satisfy
    /// `counts`.
    fn areas(&self, links: &[Link], counts: impl Fn(&str) -> bool) -> Vec<usize> {
        let mut parents: Vec<usize> = (0..self.neighbours.len()).collect();
        for link in links.iter().filter(|link| link.between.iter().all(|node| counts(node))) {
            let [a, b] = [0, 1].map(|end| root(&mut parents, self.indices[link.between[end].as_str()]));
            parents[a.max(b)] = a.min(b);
        }
        (0..parents.len()).map(|node| root(&mut parents, node)).collect()
    }

    /// True if two hosts have a common link, or forwarding neighbours in the same area.
    fn connected(&self, ends: [&str; 2], hosts: &BTreeSet<&str>, areas: &[usize]) -> bool {
        let [from, to] = ends.map(|node| self.indices[node]);
        let reach = |host: usize| {
            let forwarding = self.neighbours[host].iter().filter(|&&next| !hosts.contains(self.names[next]));
            forwarding.map(|&next| areas[next]).collect::<BTreeSet<_>>()
        };
        self.neighbours[from].contains(&to) || !reach(from).is_disjoint(&reach(to))
    }

    /// The pairs of links by which a path between two hosts may leave and arrive: a common link, or two links
    /// whose other ends forward in the same area.
    fn pairs<'b>(
        &'b self,
        links: &'b [Link],
        ends: [&'b str; 2],
        (hosts, areas): (&'b BTreeSet<&str>, &'b [usize]),
    ) -> impl Iterator<Item = [usize; 2]> + 'b {
        // Each link of a host, and the node at its other end.
        let of = |host: &'b str| {
            links.iter().enumerate().filter_map(move |(index, link)| {
                let [a, b] = link.between.each_ref().map(String::as_str);
                (a == host).then_some((index, b)).or_else(|| (b == host).then_some((index, a)))
            })
        };
        let [from, to] = ends;
        of(from).flat_map(move |(one, next)| {
            of(to).filter_map(move |(other, last)| {
                let area = |node: &str| (!hosts.contains(node)).then(|| areas[self.indices[node]]);
                let routed = one == other || area(next).is_some() && area(next) == area(last);
                routed.then_some([one, other])
            })
        })
    }
}

fn root(parents: &mut [usize], mut node: usize) -> usize {
    while parents[node] != node {
        parents[node] = parents[parents[node]];
        node = parents[node];
    }
    node
}
