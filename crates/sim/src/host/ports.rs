//! Ports of simulated hosts. Each connecting end has a reserved port of its host: ends are not processed in order of
//! time, so ports assigned on demand would depend on lookahead. Listening ends with the same settings share a
//! listener, and each listener has a separate port.

use crate::scenario::model::{Flow, IpVersion, Protocol};
use anabranch_endpoint::Address;
use anabranch_host::Transport;
use std::collections::BTreeMap;

/// First dynamic port, and their number (RFC 6335 §6).
const FIRST_PORT: u16 = 49_152;
const PORT_COUNT: usize = 16_384;

/// Port of the first listener of a host.
const FIRST_SERVICE_PORT: u16 = 5_001;

/// Port of a connecting end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPort {
    /// Port of the end.
    pub port: u16,
    /// Number of earlier connections of the host with the same port. They use other listeners.
    pub lap: usize,
}

/// The ports of the connecting ends, as far apart as possible, because further paths of a connection use the
/// following ports.
pub fn of_flows(flows: &[&Flow]) -> Vec<OwnPort> {
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for flow in flows {
        *ends.entry(&flow.from).or_default() += 1;
    }
    let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
    let mut own = |flow: &&Flow| {
        let (name, _) = ends.get_key_value(&*flow.from)?;
        let apart = (PORT_COUNT / ends[name]).max(1);
        let place = begun.entry(*name).or_default();
        let at = *place * apart;
        *place += 1;
        Some(OwnPort { port: FIRST_PORT + (at % PORT_COUNT) as u16, lap: at / PORT_COUNT })
    };
    flows.iter().filter_map(&mut own).collect()
}

/// Properties that listening ends must have in common to share a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Service<'a> {
    /// The host.
    pub host: &'a str,
    /// The transport whose ports are used.
    pub transport: Transport,
    /// The settings of the flow that the port belongs to.
    pub settings: Settings<'a>,
    /// Local addresses of the end.
    pub local: Vec<Address>,
    /// Number of the round in which the ports of the connecting host were assigned, since a listener gets at most one
    /// connection from each port.
    pub lap: usize,
}

/// Settings of a flow's connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings<'a> {
    protocol: &'a Protocol,
    mtu: Option<u32>,
    initial_path: (&'a [usize], Option<IpVersion>),
    backup: &'a [usize],
    ordered: bool,
}

impl<'a> Settings<'a> {
    /// The settings of a flow.
    pub fn of(flow: &'a Flow) -> Self {
        let Flow { protocol, mtu, initial_path, initial_version, backup, ordered, .. } = flow;
        let initial_path = (&initial_path[..], *initial_version);
        Self { protocol, mtu: *mtu, initial_path, backup, ordered: *ordered }
    }
}

/// Listeners with their ports, by host and transport.
#[derive(Debug, Default)]
pub struct Services<'a>(BTreeMap<(&'a str, Transport), Vec<(Service<'a>, u16)>>);

impl<'a> Services<'a> {
    /// The port of a service, and true if its listener is new; `None` if there is no free port.
    pub fn port(&mut self, service: Service<'a>) -> Option<(u16, bool)> {
        let all = self.0.entry((service.host, service.transport)).or_default();
        if let Some((_, port)) = all.iter().rev().find(|(known, _)| *known == service) {
            return Some((*port, false));
        }
        let port = FIRST_SERVICE_PORT
            .checked_add(u16::try_from(all.len()).ok()?)
            .filter(|port| *port < FIRST_PORT)?;
        all.push((service, port));
        Some((port, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;
    use core::net::IpAddr;

    #[test]
    fn connections_of_a_host_have_different_ends() {
        // 16,385 flows between the same two hosts: one more than there are ports.
        let flow = presets::dumbbell(1, 1, 10, 10).flows[0].clone();
        let flows = vec![&flow; PORT_COUNT + 1];
        let mut all: Vec<_> = of_flows(&flows).iter().map(|own| (own.port, own.lap)).collect();
        assert_eq!(
            (all[0], all[1], all[PORT_COUNT]),
            ((FIRST_PORT, 0), (FIRST_PORT + 1, 0), (FIRST_PORT, 1))
        );
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), PORT_COUNT + 1);
    }

    #[test]
    fn ports_are_far_from_each_other() {
        let flow = presets::dumbbell(1, 1, 10, 10).flows[0].clone();
        let ports: Vec<_> = of_flows(&vec![&flow; 4_096]).iter().map(|own| own.port).collect();
        assert_eq!(ports[..3], [FIRST_PORT, FIRST_PORT + 4, FIRST_PORT + 8]);
    }

    #[test]
    fn listeners_with_equal_settings_share_a_port() {
        let flow = presets::dumbbell(1, 1, 10, 10).flows[0].clone();
        let mut other = flow.clone();
        other.protocol.set("receive_buffer", "1 B").unwrap();
        let service = |flow: &'static Flow, host, lap| Service {
            host,
            transport: Transport::Tcp,
            settings: Settings::of(flow),
            local: vec![Address::new(IpAddr::from([10, 0, 0, 1]), 1500)],
            lap,
        };
        let [flow, other] = [flow, other].map(|flow| &*Box::leak(Box::new(flow)));
        let mut services = Services::default();
        assert_eq!(services.port(service(flow, "a", 0)), Some((FIRST_SERVICE_PORT, true)));
        assert_eq!(services.port(service(flow, "a", 0)), Some((FIRST_SERVICE_PORT, false)));
        assert_eq!(services.port(service(other, "a", 0)), Some((FIRST_SERVICE_PORT + 1, true)));
        assert_eq!(services.port(service(flow, "b", 0)), Some((FIRST_SERVICE_PORT, true)));
        assert_eq!(services.port(service(flow, "a", 1)), Some((FIRST_SERVICE_PORT + 2, true)));
    }
}
