//! Names of the paths of a flow.

use crate::Scenario;
use anabranch_netem::Interface;
use core::net::IpAddr;
use std::collections::BTreeMap;

/// The names of a flow's paths, in the order of the paths: the link at the sender, and, if different, the one
/// at the receiver. Further paths over the same links are numbered.
#[derive(Clone, Debug, Default)]
pub struct PathNames {
    names: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

impl PathNames {
    /// The name of the path `at`, from its addresses at sender and receiver; callers request paths in order.
    pub fn of(&mut self, at: usize, scenario: &Scenario, ends: [IpAddr; 2]) -> &str {
        if at == self.names.len() {
            let name = name(scenario, ends);
            let number = self.numbers.entry(name.clone()).and_modify(|number| *number += 1).or_insert(1);
            self.names.push(if *number > 1 { format!("{name}#{number}") } else { name });
        }
        &self.names[at]
    }
}

fn name(scenario: &Scenario, [local, remote]: [IpAddr; 2]) -> String {
    let link = |address| scenario.links.get(Interface::of_address(address)?.link());
    match (link(local), link(remote)) {
        (Some(from), Some(to)) if from.name == to.name => from.name.clone(),
        (Some(from), Some(to)) => format!("{}>{}", from.name, to.name),
        _ => format!("{local}>{remote}"),
    }
}
