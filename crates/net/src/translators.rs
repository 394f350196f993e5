//! Outside addresses of address translators, to which hosts need routes.

use anabranch_middlebox::Settings;
use anabranch_netem::{Interface, InterfaceAddress, Network};
use anabranch_scenario::model::Middlebox;
use anabranch_scenario::{MiddleboxPlaces, Scenario};
use std::collections::{BTreeSet, VecDeque};

/// The outside addresses of each translator, with the first host behind it.
pub(crate) fn outside(scenario: &Scenario, network: &Network) -> Vec<(InterfaceAddress, String)> {
    let Some(places) = MiddleboxPlaces::of(scenario) else { return Vec::new() };
    let nodes = network.nodes();
    let of = |(index, _): (usize, &Middlebox)| {
        let node = network.owner(places.first_to(index)?.opposite());
        let (outer, inner): (Vec<_>, Vec<_>) =
            nodes[node].interfaces.iter().partition(|&&interface| places.is_outside(interface));
        let host = first_host(network, node, inner)?;
        let addresses = outer.into_iter().flat_map(|interface| network.addresses(interface));
        Some(addresses.map(move |address| (address, host.clone())).collect::<Vec<_>>())
    };
    let is_translator = |(_, declared): &(usize, &Middlebox)| matches!(declared.does, Settings::Nat(_));
    let translators = scenario.middleboxes.iter().enumerate().filter(is_translator);
    translators.filter_map(of).flatten().collect()
}

/// The first host that some interfaces of a node lead to. Hosts do not forward.
fn first_host(network: &Network, node: usize, interfaces: Vec<Interface>) -> Option<String> {
    let mut seen = BTreeSet::from([node]);
    let mut next: VecDeque<Interface> = interfaces.into();
    while let Some(interface) = next.pop_front() {
        let at = network.owner(interface.opposite());
        let found = &network.nodes()[at];
        if found.host {
            return Some(found.name.clone());
        }
        if seen.insert(at) {
            next.extend(&found.interfaces);
        }
    }
    None
}
