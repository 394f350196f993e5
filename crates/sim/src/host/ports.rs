//! The ports of simulated hosts: one space for all connections of a host.
//!
//! Every end of a flow has a block of its host's dynamic ports to itself, so that no two connections of a host share their
//! ends, and which port one gets does not depend on what the others did before: ends are not dealt with in the order of
//! time.

use crate::scenario::model::Flow;
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

/// Dynamic ports (RFC 6335 §6).
const FIRST: u16 = 49_152;
const COUNT: usize = 16_384;

/// Port of listening ends.
const SERVICE: u16 = 5_001;

/// The ports of one end of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The port that its connection listens on or comes from.
    pub first: u16,
    /// The block that further ports are from.
    block: (u16, u16),
    /// Between whom ports of the block are in use, with how many each.
    used: Vec<((IpAddr, SocketAddr), u16)>,
}

impl Ports {
    /// A port for another path of the connection, from this address to that remote end.
    pub fn give(&mut self, local: IpAddr, remote: SocketAddr) -> Option<u16> {
        let (start, len) = self.block;
        let key = (local, remote);
        let known = self.used.iter().position(|(known, _)| *known == key);
        let at = known.unwrap_or_else(|| {
            self.used.push((key, 0));
            self.used.len() - 1
        });
        let used = &mut self.used[at].1;
        *used += 1;
        (*used < len).then(|| start + *used)
    }
}

/// The ports of both ends of each flow: the connecting end comes from a port of its own, the listening end has the service
/// port. With more flows at a host than there are ports, the next service port begins.
pub fn of_flows(flows: &[Flow]) -> Vec<[Ports; 2]> {
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for name in flows.iter().flat_map(|flow| [&*flow.from, &*flow.to]) {
        *ends.entry(name).or_default() += 1;
    }
    let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
    let mut block = |name| {
        let len = (COUNT / ends.get(name).copied().unwrap_or(1)).max(1);
        let place = begun.entry(name).or_default();
        let at = *place * len;
        *place += 1;
        ((FIRST + (at % COUNT) as u16, len as u16), (at / COUNT) as u16)
    };
    let mut all = Vec::with_capacity(flows.len());
    for flow in flows {
        let ((here, lap), (there, _)) = (block(&*flow.from), block(&*flow.to));
        let ports = |first, block| Ports { first, block, used: Vec::new() };
        all.push([ports(here.0, here), ports(SERVICE + lap, there)]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn no_two_connections_of_a_host_share_their_ends() {
        // 16,385 flows between the same two hosts: one more than there are ports.
        let flow = presets::dumbbell(1, 1, 10, 10).flows[0].clone();
        let flows = vec![flow; COUNT + 1];
        let all = of_flows(&flows);
        let mut ends: Vec<_> = all.iter().map(|[from, to]| (from.first, to.first)).collect();
        assert_eq!((ends[0], ends[COUNT]), ((FIRST, SERVICE), (FIRST, SERVICE + 1)));
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), COUNT + 1);
    }

    #[test]
    fn further_ports_stay_within_the_block_and_are_told_apart_by_their_ends() {
        let flow = presets::dumbbell(1, 1, 10, 10).flows[0].clone();
        let mut all = of_flows(&vec![flow; 4_096]);
        let ([mut first, _], [second, _]) = (all.swap_remove(0), all.swap_remove(1));
        assert_eq!((first.first, second.first), (FIRST, FIRST + 4));
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let remote = SocketAddr::new(address(9), SERVICE);
        let given: Vec<_> = (0..4).map(|_| first.give(address(1), remote)).collect();
        assert_eq!(given, [Some(FIRST + 1), Some(FIRST + 2), Some(FIRST + 3), None]);
        assert_eq!(first.give(address(2), remote), Some(FIRST + 1), "another address has them again");
    }
}
