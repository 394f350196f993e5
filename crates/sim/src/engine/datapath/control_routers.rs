//! The state of routers with network control.

use super::end::EndId;
use crate::scenario::Scenario;
use anabranch_middlebox::network_control::ControlRouter;
use anabranch_netem::{FlowHash, Interface, InterfaceAddress, Network};
use std::collections::BTreeMap;

/// The routers with network control of a network.
#[derive(Debug)]
pub struct ControlRouters {
    pub(super) routers: BTreeMap<usize, ControlRouter>,
    /// Routes from a router's interface to ends of flows.
    pub(super) onward: BTreeMap<(Interface, InterfaceAddress, EndId, FlowHash), u32>,
}

impl ControlRouters {
    /// Creates the routers of a scenario; `None` if none has network control.
    pub(super) fn of(scenario: &Scenario, network: &Network) -> Option<Box<Self>> {
        let routers = scenario.control_routers(network);
        (!routers.is_empty()).then(|| Box::new(Self { routers, onward: BTreeMap::new() }))
    }
}
