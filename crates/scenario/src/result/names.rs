//! Names of the paths of a flow.

use crate::Scenario;
use crate::model::IpVersions;
use anabranch_netem::{InterfaceAddress, IpVersion};
use core::net::IpAddr;
use std::collections::BTreeMap;

/// The names of a flow's paths, in the order of the paths: the link at the sender, and, if different, the one
/// at the receiver. If both versions of IP connect these links, the name ends with the version. Further paths with the
/// same name are numbered.
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
    let link = |address| {
        let link = InterfaceAddress::of(address)?.link();
        scenario.links.get(link).map(|declared| (declared.name.as_str(), scenario.versions(link)))
    };
    let (Some((from, at_sender)), Some((to, at_receiver))) = (link(local), link(remote)) else {
        return format!("{local}>{remote}");
    };
    let is_dual = [at_sender, at_receiver].iter().all(|versions| *versions == IpVersions::Both);
    let version = if is_dual { IpVersion::of(local).suffix() } else { "" };
    if from == to { format!("{from}{version}") } else { format!("{from}>{to}{version}") }
}
