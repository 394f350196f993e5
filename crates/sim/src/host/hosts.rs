//! The hosts at the ends of the flows: those of crate `host`, with their listeners, ports, and answers to packets
//! without a connection.

use crate::engine::Datapath;
use crate::scenario::Scenario;
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_endpoint::{Address, Endpoint, Secrets};
use anabranch_host::{ConnectionId, Host, Limits};
use anabranch_multipath::scheduler::KnownPath;
use anabranch_netem::Network;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An index in [`Hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostId(usize);

/// All hosts.
#[derive(Debug)]
pub struct Hosts {
    hosts: Vec<Host>,
    of_node: BTreeMap<usize, HostId>,
}

/// The environment of a run's flows.
#[derive(Debug)]
pub struct FlowEnvironment {
    /// The network.
    pub datapath: Datapath,
    /// The hosts at the ends of the flows.
    pub hosts: Hosts,
}

impl Hosts {
    /// The hosts at the ends of flows.
    pub fn new(scenario: &Scenario, network: &Network, rng: &Rng) -> Self {
        // A scenario has only the connections that it declares. With lookahead, a host processes the connections of
        // different addresses out of order, so limits that depend on their number or timing are disabled.
        let limits = Limits {
            connections: usize::MAX,
            time_wait: usize::MAX,
            answers_per_second: u32::MAX,
            ..Limits::default()
        };
        let (mut hosts, mut of_node) = (Vec::new(), BTreeMap::new());
        for (index, node) in network.nodes().iter().enumerate().filter(|(_, node)| node.host) {
            let addresses = node.interfaces.iter().flat_map(|&interface| {
                let link = &scenario.links[interface.link()];
                let model = if interface.end() == 0 { &link.forward } else { &link.reverse };
                let of = |address| Address::new(scenario.address(address), model.mtu);
                network.addresses(interface).map(of)
            });
            let addresses = addresses.collect();
            let secrets = Secrets::simulated(&mut rng.fork(&format!("host.{}", node.name)));
            of_node.insert(index, HostId(hosts.len()));
            hosts.push(Host::new(addresses, limits.clone(), secrets));
        }
        Self { hosts, of_node }
    }

    /// The host at a node, if a flow ends there.
    pub fn of_node(&self, node: usize) -> Option<HostId> {
        self.of_node.get(&node).copied()
    }

    /// A host.
    #[inline]
    pub fn get_mut(&mut self, host: HostId) -> &mut Host {
        &mut self.hosts[host.0]
    }

    /// Number of connections of each host, and of names including ended connections.
    pub fn entries(&self) -> Vec<(usize, usize)> {
        self.hosts.iter().map(Host::entries).collect()
    }

    /// A connection of a host, for reading.
    pub fn endpoint(&self, host: HostId, connection: Option<ConnectionId>) -> Option<&dyn Endpoint> {
        self.hosts[host.0].endpoint(connection?)
    }

    /// Notifies a host's connections that an address was added (`up`) or removed.
    pub fn address_changed(&mut self, now: Time, host: HostId, (address, mtu): (IpAddr, u32), up: bool) {
        let host = self.get_mut(host);
        if up {
            host.add_address(now, Address::new(address, mtu));
        } else {
            host.remove_address(now, address);
        }
    }

    /// Passes the characteristics of paths to all hosts.
    pub fn set_known_paths(&mut self, now: Time, known: &Arc<[KnownPath]>) {
        self.hosts.iter_mut().for_each(|host| host.set_known_paths(now, known));
    }

    /// Replaces an address of a host by another on the same interface, before the hosts are notified.
    pub fn renumber(&mut self, now: Time, old: IpAddr, new: IpAddr) {
        self.hosts.iter_mut().for_each(|host| host.renumber(now, old, new));
    }
}
