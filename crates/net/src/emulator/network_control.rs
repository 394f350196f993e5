//! Routers with network control, the same as in a simulation.

use anabranch_middlebox::network_control::ControlRouter;
use anabranch_netem::Network;
use anabranch_scenario::Scenario;
use std::collections::BTreeMap;

/// The routers with network control of a network, by their nodes.
#[derive(Debug)]
pub(super) struct ControlRouters(BTreeMap<usize, ControlRouter>);

impl ControlRouters {
    /// Those of a scenario; `None` without any.
    pub fn of(scenario: &Scenario, network: &Network) -> Option<Self> {
        let routers = network.nodes().iter().enumerate();
        let routers = routers.filter(|(_, node)| scenario.has_network_control(&node.name));
        let routers: BTreeMap<_, _> =
            routers.map(|(node, _)| (node, ControlRouter::new(node as u32))).collect();
        (!routers.is_empty()).then_some(Self(routers))
    }

    /// The router at a node, if that has network control.
    pub fn at(&mut self, node: usize) -> Option<&mut ControlRouter> {
        self.0.get_mut(&node)
    }
}
