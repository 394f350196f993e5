//! The ports of simulated hosts. A connecting end comes from a port that its host keeps for it, so that which one it gets does
//! not depend on what the others did before: ends are not dealt with in the order of time. Listening ends whose settings are
//! the same share a listener, and each listener has a port of its own.

use crate::scenario::model::{Common, Flow, Protocol};
use anabranch_endpoint::Address;
use anabranch_host::Transport;
use std::collections::BTreeMap;

/// Dynamic ports (RFC 6335 §6).
const FIRST: u16 = 49_152;
const COUNT: usize = 16_384;

/// Port of the first listener of a host.
const SERVICE: u16 = 5_001;

/// Where a connecting end comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// Its port.
    pub port: u16,
    /// How many connections of its host have the port already: those go to other listeners.
    pub lap: usize,
}

/// The ports of the connecting ends, as far from each other as may be: further paths of a connection come from the ports
/// behind.
pub fn of_flows(flows: &[&Flow]) -> Vec<Own> {
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for flow in flows {
        *ends.entry(&flow.from).or_default() += 1;
    }
    let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
    let mut own = |flow: &&Flow| {
        let (name, _) = ends.get_key_value(&*flow.from)?;
        let apart = (COUNT / ends[name]).max(1);
        let place = begun.entry(*name).or_default();
        let at = *place * apart;
        *place += 1;
        Some(Own { port: FIRST + (at % COUNT) as u16, lap: at / COUNT })
    };
    flows.iter().filter_map(&mut own).collect()
}

/// What listening ends have in common that share a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Service<'a> {
    /// The host.
    pub host: &'a str,
    /// Whose ports.
    pub transport: Transport,
    /// The protocol with its settings.
    pub settings: (&'a Protocol, &'a Common),
    /// Where it listens.
    pub local: Vec<Address>,
    /// Connections from one port go to one listener each.
    pub lap: usize,
}

/// The listeners so far, with their ports: of each host, those of each transport.
#[derive(Debug, Default)]
pub struct Services<'a>(BTreeMap<(&'a str, Transport), Vec<(Service<'a>, u16)>>);

impl<'a> Services<'a> {
    /// The port of a service, and whether it is the first to ask for it; none if there is no port left.
    pub fn port(&mut self, service: Service<'a>) -> Option<(u16, bool)> {
        let all = self.0.entry((service.host, service.transport)).or_default();
        if let Some((_, port)) = all.iter().rev().find(|(known, _)| *known == service) {
            return Some((*port, false));
        }
        let port = SERVICE.checked_add(u16::try_from(all.len()).ok()?).filter(|port| *port < FIRST)?;
        all.push((service, port));
        Some((port, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;
    use crate::scenario::model::Buffer;
    use core::net::IpAddr;

    #[test]
    fn no_two_connections_of_a_host_share_their_ends() {
        // 16,385 flows between the same two hosts: one more than there are ports.
        let flow = presets::dumbbell(1, 1, 10, 10).flows[0].clone();
        let flows = vec![&flow; COUNT + 1];
        let mut all: Vec<_> = of_flows(&flows).iter().map(|own| (own.port, own.lap)).collect();
        assert_eq!((all[0], all[1], all[COUNT]), ((FIRST, 0), (FIRST + 1, 0), (FIRST, 1)));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), COUNT + 1);
    }

    #[test]
    fn ports_are_far_from_each_other() {
        let flow = presets::dumbbell(1, 1, 10, 10).flows[0].clone();
        let ports: Vec<_> = of_flows(&vec![&flow; 4_096]).iter().map(|own| own.port).collect();
        assert_eq!(ports[..3], [FIRST, FIRST + 4, FIRST + 8]);
    }

    #[test]
    fn those_who_listen_with_the_same_settings_share_a_port() {
        let flow = presets::dumbbell(1, 1, 10, 10).flows[0].clone();
        let other = Flow {
            common: Common { receive_buffer: Buffer::Bytes(1), ..flow.common.clone() },
            ..flow.clone()
        };
        let service = |flow: &'static Flow, host, lap| Service {
            host,
            transport: Transport::Tcp,
            settings: (&flow.protocol, &flow.common),
            local: vec![Address::new(IpAddr::from([10, 0, 0, 1]), 1500)],
            lap,
        };
        let [flow, other] = [flow, other].map(|flow| &*Box::leak(Box::new(flow)));
        let mut services = Services::default();
        assert_eq!(services.port(service(flow, "a", 0)), Some((SERVICE, true)));
        assert_eq!(services.port(service(flow, "a", 0)), Some((SERVICE, false)));
        assert_eq!(services.port(service(other, "a", 0)), Some((SERVICE + 1, true)));
        assert_eq!(services.port(service(flow, "b", 0)), Some((SERVICE, true)));
        assert_eq!(services.port(service(flow, "a", 1)), Some((SERVICE + 2, true)));
    }
}
