//! The forwarding graph, which decides where lookahead is possible.
//!
//! A component is a link direction or an end of a flow. If it has a single source, it gets its packets in the order
//! in which that source forwards them. No other packet can arrive between them, so the packets need not wait for
//! their time.
//!
//! ICMP errors are an exception: a direction whose MTU is too small for some packets sends an error when such a
//! packet is offered to it. So no packet is offered ahead of time to such a direction, nor to the first direction of
//! its errors.

use anabranch_netem::{InterfaceAddress, Network};
use core::ops::Range;

/// An end with more ingress links takes its packets in order of time: checking all links for every packet
/// would cost more than lookahead saves.
const MAX_INGRESS_LINKS: usize = 4;

/// Sources or destinations of a direction or an end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbour {
    None,
    One(u32),
    Several,
}

impl Neighbour {
    fn including(self, other: u32) -> Self {
        match self {
            Self::None => Self::One(other),
            Self::One(known) if known == other => self,
            _ => Self::Several,
        }
    }
}

/// A property of all packets of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The packets continue, in order, to directions with no other source.
    Feeds,
    /// The packets are for an end of a flow that shares neither its first nor its last links with others.
    LeadsTo(u32),
    /// Neither of the other two properties holds.
    Plain,
}

/// Route of the errors of a narrow direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorRoute {
    /// The direction for which some packets are too large.
    pub narrow: u32,
    /// The directions of the error's route, at least one.
    pub back: Vec<u32>,
    /// The end of a flow that is its destination.
    pub end: u32,
}

/// Further inputs of the graph, besides the routes.
#[derive(Clone, Copy, Debug, Default)]
pub struct GraphInputs<'a> {
    /// Whether each direction keeps the order of packets.
    pub keeps_order: &'a [bool],
    /// Routes of errors, which are further sources of packets.
    pub errors: &'a [ErrorRoute],
    /// Ends of flows that interact with others not only by packets.
    pub ordered_ends: &'a [u32],
}

/// Sources and destinations of every component, over all routes that the flows of a scenario can use.
#[derive(Debug)]
pub struct ForwardingGraph {
    roles: Vec<Role>,
    /// The only source of a direction, if the source has the role [`Role::Feeds`].
    upstream: Vec<Option<u32>>,
    /// The directions that lead to each end, concatenated, and the index of each end's first direction. An end
    /// that shares one of its first or last links has no directions here.
    ingress: Vec<u32>,
    begins: Vec<u32>,
}

impl ForwardingGraph {
    /// Builds the graph from all routes between the hosts of each of the `flows`; `around` contains the other inputs.
    pub fn new(network: &mut Network, flows: usize, around: &GraphInputs<'_>) -> Self {
        let keeps_order = around.keeps_order;
        let directions = keeps_order.len();
        let mut steps = Vec::new();
        for flow in 0..flows {
            let ends = [0, 1].map(|side| (directions + 2 * flow + side) as u32);
            // Routes do not depend on the number of an address.
            let is_first = |pair: &[InterfaceAddress; 2]| pair.iter().all(|address| address.number == 0);
            let pairs: Vec<_> = network.connected_pairs(flow).filter(is_first).collect();
            for [near, far] in pairs {
                for (from, to, [source, target]) in [(near, far, ends), (far, near, [ends[1], ends[0]])] {
                    for (before, hop) in network.steps(from, to) {
                        steps.push((before.map_or(source, |before| before.0), hop.0));
                        if network.leads_to(hop, to) {
                            steps.push((hop.0, target));
                        }
                    }
                }
            }
        }
        Self::from_steps(steps, flows, around)
    }

    /// Builds the graph from all pairs of a component and its next component.
    fn from_steps(mut steps: Vec<(u32, u32)>, flows: usize, around: &GraphInputs<'_>) -> Self {
        let &GraphInputs { keeps_order, errors, ordered_ends } = around;
        let directions = keeps_order.len();
        let components = directions + 2 * flows;
        for ErrorRoute { back, end, .. } in errors {
            let onwards = back.iter().skip(1).copied().chain([directions as u32 + end]);
            steps.extend(back.iter().copied().zip(onwards));
        }
        steps.sort_unstable();
        steps.dedup();
        let mut narrow = vec![false; components];
        let (mut before, mut behind) = (vec![Neighbour::None; components], vec![Neighbour::None; components]);
        for &(from, to) in &steps {
            before[to as usize] = before[to as usize].including(from);
            behind[from as usize] = behind[from as usize].including(to);
        }
        for error in errors {
            narrow[error.narrow as usize] = true;
            if let Some(&first) = error.back.first() {
                before[first as usize] = Neighbour::Several;
            }
        }
        let alone = |from: u32, to: u32| before[to as usize] == Neighbour::One(from);
        let between = || steps.iter().filter(|step| (step.0 as usize) < directions);
        let mut feeds = vec![false; directions];
        for &(from, _) in between() {
            feeds[from as usize] = keeps_order[from as usize];
        }
        for &(from, to) in between() {
            feeds[from as usize] &= (to as usize) < directions && alone(from, to) && !narrow[to as usize];
        }
        let upstream_of = |direction: usize| match before[direction] {
            Neighbour::One(one) if (one as usize) < directions && feeds[one as usize] => Some(one),
            _ => None,
        };
        let mut shares = vec![false; 2 * flows];
        for &end in ordered_ends {
            shares[end as usize] = true;
        }
        let mut leading: Vec<(u32, u32)> = Vec::new();
        for &(from, to) in &steps {
            if let Some(end) = (from as usize).checked_sub(directions) {
                shares[end] |= !alone(from, to) || narrow[to as usize];
            }
            if let Some(end) = (to as usize).checked_sub(directions) {
                shares[end] |= behind[from as usize] != Neighbour::One(to);
                leading.push((end as u32, from));
            }
        }
        let mut ingress = vec![0; 2 * flows];
        for &(end, _) in &leading {
            ingress[end as usize] += 1;
        }
        leading.retain(|&(end, _)| !shares[end as usize] && ingress[end as usize] <= MAX_INGRESS_LINKS);
        leading.sort_unstable();
        let mut roles: Vec<_> =
            feeds.iter().map(|&feeds| if feeds { Role::Feeds } else { Role::Plain }).collect();
        for &(end, direction) in &leading {
            roles[direction as usize] = Role::LeadsTo(end);
        }
        let begins = (0..=2 * flows as u32).map(|end| leading.partition_point(|&(of, _)| of < end) as u32);
        Self {
            roles,
            upstream: (0..directions).map(upstream_of).collect(),
            begins: begins.collect(),
            ingress: leading.into_iter().map(|(_, direction)| direction).collect(),
        }
    }

    /// The property of all packets of a direction.
    #[inline]
    pub fn role(&self, direction: u32) -> Role {
        self.roles[direction as usize]
    }

    /// The only source of a direction, if the source has the role [`Role::Feeds`].
    #[inline]
    pub fn upstream(&self, direction: u32) -> Option<u32> {
        self.upstream[direction as usize]
    }

    /// Removes a direction as the source of others, because its packets no longer keep their order.
    pub fn detach(&mut self, direction: u32) {
        for upstream in &mut self.upstream {
            *upstream = upstream.filter(|&one| one != direction);
        }
    }

    /// The indices in [`ingress_link`](Self::ingress_link) of the directions that lead to an end, in order;
    /// empty if it shares a first or last link, or has too many.
    #[inline]
    pub fn ingress(&self, end: u32) -> Range<usize> {
        let end = end as usize;
        self.begins[end] as usize..self.begins[end + 1] as usize
    }

    /// The direction at an index.
    #[inline]
    pub fn ingress_link(&self, at: usize) -> u32 {
        self.ingress[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two flows with separate hosts over a bottleneck: directions 0 and 1 belong to the bottleneck, 2 to 5
    /// lead from and to the senders, 6 to 9 to and from the receivers.
    fn dumbbell() -> Vec<(u32, u32)> {
        let routes = [[10, 2, 0, 6, 11], [11, 7, 1, 3, 10], [12, 4, 0, 8, 13], [13, 9, 1, 5, 12]];
        routes.iter().flat_map(|route| route.windows(2).map(|step| (step[0], step[1]))).collect()
    }

    fn graph(steps: &[(u32, u32)], keeps_order: [bool; 10]) -> ForwardingGraph {
        let around = GraphInputs { keeps_order: &keeps_order, ..GraphInputs::default() };
        ForwardingGraph::from_steps(steps.to_vec(), 2, &around)
    }

    fn ingress(graph: &ForwardingGraph, end: u32) -> Vec<u32> {
        graph.ingress(end).map(|at| graph.ingress_link(at)).collect()
    }

    const fn with(errors: &[ErrorRoute]) -> GraphInputs<'_> {
        GraphInputs { keeps_order: &[true; 10], errors, ordered_ends: &[] }
    }

    #[test]
    fn bottleneck_feeds_links_and_has_several_sources() {
        let graph = graph(&dumbbell(), [true; 10]);
        assert_eq!((graph.upstream(6), graph.upstream(8), graph.upstream(3)), (Some(0), Some(0), Some(1)));
        assert_eq!((graph.upstream(0), graph.upstream(1), graph.upstream(2)), (None, None, None));
        let roles = [Role::Feeds, Role::Feeds, Role::Plain, Role::LeadsTo(0), Role::Plain, Role::LeadsTo(2)];
        assert_eq!((0..6).map(|direction| graph.role(direction)).collect::<Vec<_>>(), roles);
        assert_eq!((0..4).map(|end| ingress(&graph, end)).collect::<Vec<_>>(), [[3], [6], [5], [8]]);
    }

    #[test]
    fn reordering_bottleneck_has_no_lookahead() {
        let mut keeps_order = [true; 10];
        keeps_order[0] = false;
        let graph = graph(&dumbbell(), keeps_order);
        assert_eq!((graph.upstream(6), graph.upstream(3)), (None, Some(1)));
        assert_eq!(ingress(&graph, 1), [6], "the ingress link of this end is unaffected");
    }

    #[test]
    fn narrow_link_limits_lookahead_locally() {
        // The second flow's last link is narrow: errors go back over the bottleneck.
        let errors = [ErrorRoute { narrow: 8, back: vec![1, 5], end: 2 }];
        let graph = ForwardingGraph::from_steps(dumbbell(), 2, &with(&errors));
        assert_eq!(
            (graph.role(0), graph.upstream(6)),
            (Role::Plain, None),
            "the directions before the narrow link"
        );
        assert_eq!((graph.role(1), graph.upstream(3)), (Role::Feeds, Some(1)), "the opposite direction");
        assert_eq!((0..4).map(|end| ingress(&graph, end)).collect::<Vec<_>>(), [[3], [6], [5], [8]]);
        // The first flow's own first link is narrow: only its sender is affected.
        let errors = [ErrorRoute { narrow: 2, back: vec![3], end: 0 }];
        let graph = ForwardingGraph::from_steps(dumbbell(), 2, &with(&errors));
        assert_eq!(
            (graph.role(1), graph.upstream(3)),
            (Role::Plain, None),
            "errors arrive between the packets"
        );
        let ingresses: Vec<_> = (0..4).map(|end| ingress(&graph, end)).collect();
        assert_eq!(ingresses, [vec![], vec![6], vec![5], vec![8]]);
    }

    #[test]
    fn ordered_end_has_no_lookahead() {
        let around = GraphInputs { ordered_ends: &[1], ..with(&[]) };
        let graph = ForwardingGraph::from_steps(dumbbell(), 2, &around);
        assert_eq!((graph.role(6), graph.role(3)), (Role::Plain, Role::LeadsTo(0)));
        assert_eq!((0..4).map(|end| ingress(&graph, end).len()).collect::<Vec<_>>(), [1, 0, 1, 1]);
    }

    #[test]
    fn shared_first_link_belongs_to_no_flow() {
        let mut steps = dumbbell();
        // The second flow uses the first flow's host.
        steps.extend([(12, 2), (3, 12)]);
        let graph = graph(&steps, [true; 10]);
        assert_eq!(
            (0..4).map(|end| ingress(&graph, end)).collect::<Vec<_>>(),
            [vec![], vec![6], vec![], vec![8]]
        );
    }
}
