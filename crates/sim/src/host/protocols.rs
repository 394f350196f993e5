//! The settings of both ends of a flow: the settings of its protocol, and the settings that follow from the
//! network.

use super::applications::Streams;
use super::build::{Plan, Setup};
use super::delivery::Service;
use anabranch_endpoint::Address;
use anabranch_host::Protocol;
use anabranch_multipath::MAX_PATHS;
use anabranch_multipath::path_manager::{AddressId, Pair};
use anabranch_netem::InterfaceAddress;
use anabranch_sctp as sctp;
use anabranch_settings::policy::{Reliability, SctpPaths};
use anabranch_tcp::{mptcp, tcp};
use core::net::{IpAddr, Ipv4Addr};

/// Header bytes of SCTP with one `DATA` chunk: 12 and 16.
const SCTP_OVERHEAD: u32 = 28;

/// Number of address identifiers of Multipath TCP, which have one byte.
const MAX_ADDRESSES: usize = 256;

const ONE_STREAM: Streams = Streams { count: 1, unordered: false, reliability: Reliability::Full };

impl Setup<'_> {
    pub(super) fn tcp(&self, config: &tcp::Config) -> Plan {
        let config = Protocol::Tcp(config.clone());
        Plan {
            protocols: [config.clone(), config],
            addresses: self.first().map(|address| vec![address]),
            service: Service::Stream,
            streams: ONE_STREAM,
            message: None,
        }
    }

    pub(super) fn mptcp(&self, config: &mptcp::Config) -> Result<Plan, String> {
        let addresses = |end| {
            let addresses = self.addresses(end).into_iter().map(|(address, mtu)| Address {
                ip: self.scenario.address(address),
                mtu,
                backup: self.declared.backup.contains(&address.link()),
            });
            let addresses: Vec<_> = addresses.collect();
            if addresses.len() > MAX_ADDRESSES {
                return Err(format!("MPTCP supports at most {MAX_ADDRESSES} addresses of a host"));
            }
            Ok(addresses)
        };
        // Address identifiers as the hosts assign them: the index in the list of addresses.
        let [local, remote] = [0, 1].map(|end| (0..=u8::MAX).take(self.addresses(end).len()).map(AddressId));
        let source_routes = self.source_routes.as_ref().map_err(ToString::to_string)?;
        let hops = |hop: &InterfaceAddress| match self.scenario.address(*hop) {
            IpAddr::V4(hop) => Some(hop),
            IpAddr::V6(_) => None,
        };
        let source_routes: Vec<Vec<Ipv4Addr>> =
            source_routes.iter().map(|route| route.hops.iter().filter_map(hops).collect()).collect();
        let manager = config.path_manager.build(source_routes.len());
        let wanted = manager.wanted(&local.collect::<Vec<_>>(), &remote.collect::<Vec<_>>());
        let ends = [0, 1].map(|end| self.addresses(end));
        let routed = |pair: &&Pair| {
            let (from, to) = (ends[0][usize::from(pair.local.0)].0, ends[1][usize::from(pair.remote.0)].0);
            self.is_routed(from, to)
        };
        check_path_count(wanted.iter().filter(routed).count())?;
        let connecting = config.clone().unroutable(self.unroutable(0)).source_routes(source_routes);
        let protocol = |host, config: mptcp::Config| {
            if self.scenario.has_mptcp(host) { Protocol::Mptcp(config) } else { Protocol::Tcp(config.tcp) }
        };
        Ok(Plan {
            protocols: [
                protocol(&self.declared.from, connecting),
                protocol(self.declared.meets(), config.clone()),
            ],
            addresses: [addresses(0)?, addresses(1)?],
            service: Service::Stream,
            streams: ONE_STREAM,
            message: None,
        })
    }

    /// Returns true if a route connects two addresses.
    fn is_routed(&self, from: InterfaceAddress, to: InterfaceAddress) -> bool {
        self.pairs.iter().any(|&(near, far, _)| (near, far) == (from, to))
    }

    /// The pairs of addresses without a route; the address of this end is first.
    fn unroutable(&self, end: usize) -> Vec<(IpAddr, IpAddr)> {
        let [near, far] = [0, 1].map(|end| self.addresses(end));
        let pairs = near.iter().flat_map(|&(from, _)| far.iter().map(move |&(to, _)| (from, to)));
        let missing = pairs.filter(|&(from, to)| !self.is_routed(from, to));
        let addresses = missing.map(|(from, to)| [from, to].map(|address| self.scenario.address(address)));
        addresses.map(|pair| (pair[end], pair[1 - end])).collect()
    }

    pub(super) fn sctp(&self, settings: &sctp::Config) -> Result<Plan, String> {
        let [local, remote] = [0, 1].map(|end| self.addresses(end).len());
        check_path_count(match settings.paths {
            SctpPaths::Destination => remote.max(local),
            SctpPaths::FullMesh => local * remote - self.unroutable(0).len(),
        })?;
        let config = |end| Ok::<_, String>(Protocol::Sctp(Box::new(self.sctp_config(settings, end)?)));
        let value = |(address, mtu)| Address::new(self.scenario.address(address), mtu);
        // Whole messages must fit into the packets of all paths.
        let room = |&(address, mtu): &(InterfaceAddress, u32)| {
            mtu.saturating_sub(SCTP_OVERHEAD + address.version.header_len()).max(1)
        };
        let message = self.addresses(0).iter().map(room).min().unwrap_or(1);
        Ok(Plan {
            protocols: [config(0)?, config(1)?],
            addresses: [0, 1].map(|end| self.addresses(end).into_iter().map(value).collect()),
            service: Service::Messages,
            streams: Streams {
                count: settings.streams,
                unordered: !self.declared.ordered,
                reliability: self.declared.workload.reliability(),
            },
            message: Some(u64::from(message)),
        })
    }

    /// The settings of one end of an association.
    fn sctp_config(&self, settings: &sctp::Config, end: usize) -> Result<sctp::Config, String> {
        let remotes = self.addresses(1 - end);
        let version = self.declared.initial_version;
        let is_version = |address: &InterfaceAddress| version.is_none_or(|wanted| wanted == address.version);
        let initial_path = match self.declared.initial_path.first().filter(|_| end == 0) {
            Some(link) => remotes
                .iter()
                .position(|(address, _)| address.link() == *link && is_version(address))
                .ok_or("no route leads to its initial path; choose another link")?,
            None => 0,
        };
        Ok(settings
            .clone()
            .initial_path(initial_path)
            .partial_reliability(self.declared.workload.reliability() != Reliability::Full)
            .unroutable(self.unroutable(end)))
    }
}

/// Checks the number of paths: the cores open at most their maximum, and would silently omit the rest.
fn check_path_count(paths: usize) -> Result<(), String> {
    if paths <= MAX_PATHS {
        return Ok(());
    }
    Err(format!(
        "its hosts' addresses make {paths} paths, and a connection has at most {MAX_PATHS}; remove links or \
         addresses, or set paths to a value with fewer"
    ))
}
