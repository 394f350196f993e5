//! From a scenario's words to the settings of each protocol.

use super::applications::Streams;
use super::build::{Protocols, Setup};
use super::delivery::Service;
use crate::scenario::model;
use core::net::IpAddr;
use multipath::MOST_PATHS;
use multipath::buffer::{Rescheduling, Sides};
use multipath::path_manager::{AddressId, Pair};
use multipath::policy::SctpPaths;
use multipath::rtt::RtoBounds;
use netem::Interface;
use transport::{Address, Ends, Secrets, mptcp, sctp, tcp};
use wire::sctp::encapsulation::Ports;

/// Header bytes of SCTP with one `DATA` chunk: 12 and 16.
const SCTP_OVERHEAD: u32 = 28;

/// Address identifiers are bytes.
const MAX_ADDRESSES: usize = 256;

const ONE_STREAM: Streams = Streams { count: 1, unordered: false };

impl Setup<'_> {
    pub(super) fn tcp(&self, settings: &model::Tcp) -> Protocols {
        let ([local, remote], mtu) = self.first();
        let config = self.tcp_config(settings);
        let client = Ends::connecting(local, mtu, remote);
        let client = tcp::Connection::connecting(config.clone(), &client, self.secrets("client"));
        let server = Ends::listening(vec![Address::new(remote.ip(), mtu)], remote.port());
        let server = tcp::Connection::listening(config, &server, self.secrets("server"));
        let endpoints = [Box::new(client) as _, Box::new(server) as _];
        Protocols { endpoints, service: Service::Stream, streams: ONE_STREAM, message: None }
    }

    pub(super) fn mptcp(&self, tcp: &model::Tcp, settings: &model::Mptcp) -> Result<Protocols, String> {
        let addresses = |end| {
            let addresses = self.interfaces(end).into_iter().map(|(interface, mtu)| Address {
                ip: self.ip(interface),
                mtu,
                backup: settings.backup.contains(&interface.link()),
            });
            let addresses: Vec<_> = addresses.collect();
            if addresses.len() > MAX_ADDRESSES {
                return Err(format!("MPTCP knows at most {MAX_ADDRESSES} addresses of a host"));
            }
            Ok(addresses)
        };
        let config = mptcp::Config {
            tcp: self.tcp_config(tcp),
            scheduler: settings.scheduler,
            path_manager: settings.paths,
            opportunistic_retransmission: settings.opportunistic_retransmission,
            penalisation: settings.penalisation,
            checksum: settings.dss_checksum,
        };
        // Identifiers as the hosts give them: the place of an address in the list.
        let [local, remote] = [0, 1].map(|end| (0..=u8::MAX).take(self.interfaces(end).len()).map(AddressId));
        let wanted =
            config.path_manager.build().wanted(&local.collect::<Vec<_>>(), &remote.collect::<Vec<_>>());
        let ends = [0, 1].map(|end| self.interfaces(end));
        let routed = |pair: &&Pair| {
            let (from, to) = (ends[0][usize::from(pair.local.0)].0, ends[1][usize::from(pair.remote.0)].0);
            self.is_routed(from, to)
        };
        paths_fit(wanted.iter().filter(routed).count())?;
        let [local_port, remote_port] = [self.ports[0].first, self.ports[1].first];
        let remote = vec![self.ip(self.pairs[0].1)];
        let client = Ends { local: addresses(0)?, local_port, remote, remote_port };
        let client = mptcp::Connection::connecting(config.clone(), &client, self.secrets("client"))
            .with_unroutable(self.unroutable());
        let server = Ends::listening(addresses(1)?, remote_port);
        let server = mptcp::Connection::listening(config, &server, self.secrets("server"));
        let endpoints = [Box::new(client) as _, Box::new(server) as _];
        Ok(Protocols { endpoints, service: Service::Stream, streams: ONE_STREAM, message: None })
    }

    /// A route connects two interfaces.
    fn is_routed(&self, from: Interface, to: Interface) -> bool {
        self.pairs.iter().any(|&(near, far, _)| (near, far) == (from, to))
    }

    /// The pairs of addresses that no route connects.
    fn unroutable(&self) -> Vec<(IpAddr, IpAddr)> {
        let [near, far] = [0, 1].map(|end| self.interfaces(end));
        let pairs = near.iter().flat_map(|&(from, _)| far.iter().map(move |&(to, _)| (from, to)));
        let missing = pairs.filter(|&(from, to)| !self.is_routed(from, to));
        missing.map(|(from, to)| (self.ip(from), self.ip(to))).collect()
    }

    pub(super) fn sctp(&self, settings: &model::Sctp) -> Result<Protocols, String> {
        let [local, remote] = [0, 1].map(|end| self.interfaces(end).len());
        paths_fit(match settings.paths {
            SctpPaths::Destination => remote.max(local),
            SctpPaths::FullMesh => local * remote,
        })?;
        let mistake = |error: sctp::ConfigError| error.to_string();
        let ends = [0, 1].map(|end| self.ends(end));
        let secrets = |end| self.secrets(end);
        let client =
            sctp::Association::connecting(self.sctp_config(settings, 0)?, &ends[0], secrets("client"))
                .map_err(mistake)?;
        let server =
            sctp::Association::listening(self.sctp_config(settings, 1)?, &ends[1], secrets("server"))
                .map_err(mistake)?;
        let mtu = self.interfaces(0).iter().map(|&(_, mtu)| mtu).min().unwrap_or_default();
        Ok(Protocols {
            endpoints: [Box::new(client), Box::new(server)],
            service: Service::Messages,
            streams: Streams { count: settings.streams, unordered: !settings.ordered },
            message: Some(u64::from(mtu.saturating_sub(SCTP_OVERHEAD + self.version.header_len()).max(1))),
        })
    }

    /// What an end of this flow keeps to itself.
    fn secrets(&self, end: &str) -> Secrets {
        Secrets::simulated(&mut self.rng.fork(end))
    }

    fn rto(&self) -> RtoBounds {
        let common = &self.declared.common;
        RtoBounds { initial: common.rto_initial, min: common.rto_min, max: common.rto_max }
    }

    fn tcp_config(&self, settings: &model::Tcp) -> tcp::Config {
        let common = &self.declared.common;
        let defaults = tcp::Config::default();
        tcp::Config {
            congestion: common.congestion,
            send_buffer: common.send_buffer.most(),
            receive_buffer: common.receive_buffer.most(),
            send_autotuning: common.send_buffer.is_auto(),
            receive_autotuning: common.receive_buffer.is_auto(),
            rto: self.rto(),
            delayed_ack: settings.delayed_ack,
            initial_window: settings.initial_window,
            abc_limit: settings.abc_limit,
            recovery: settings.recovery,
            timestamps: settings.timestamps,
            nagle: settings.nagle,
            keepalive: settings.keepalive,
            user_timeout: settings.user_timeout,
            ecn: common.ecn,
            ..defaults
        }
    }

    /// Where an end is: it knows all the addresses of the other, as if from DNS.
    fn ends(&self, end: usize) -> Ends {
        let (own, other) = (self.interfaces(end), self.interfaces(1 - end));
        Ends {
            local: own.iter().map(|&(interface, mtu)| Address::new(self.ip(interface), mtu)).collect(),
            local_port: self.ports[end].first,
            remote: other.iter().map(|&(interface, _)| self.ip(interface)).collect(),
            remote_port: self.ports[1 - end].first,
        }
    }

    /// The settings of one end of an association.
    fn sctp_config(&self, settings: &model::Sctp, end: usize) -> Result<sctp::Config, String> {
        let remotes = self.interfaces(1 - end);
        let base = sctp::Config::new(self.declared.common.congestion, settings.scheduler);
        let base = if settings.cmt { base.with_cmt() } else { base };
        let rescheduling = match settings.chunk_rescheduling {
            Some(threshold) => Rescheduling { sides: Sides::Both, threshold },
            None => Rescheduling::default(),
        };
        let initial_path = match settings.initial_path.filter(|_| end == 0) {
            Some(link) => remotes
                .iter()
                .position(|(interface, _)| interface.link() == link)
                .ok_or("no route leads to its initial path; choose another link")?,
            None => 0,
        };
        Ok(sctp::Config {
            send_buffer: self.declared.common.send_buffer.most(),
            receive_buffer: self.declared.common.receive_buffer.most(),
            paths: settings.paths,
            initial_path,
            nr_sack: settings.nr_sack,
            splitting: settings.splitting,
            rescheduling,
            streams: settings.streams,
            sack_delay: settings.sack_delay,
            retransmission: settings.retransmission,
            stream_scheduler: settings.stream_scheduler,
            i_data: settings.i_data,
            ecn: self.declared.common.ecn,
            asconf: settings.asconf,
            pmtu_discovery: settings.pmtu_discovery,
            encapsulation: settings.udp_encapsulation.then(Ports::default),
            heartbeat_interval: settings.heartbeat_interval,
            path_max_retrans: settings.path_max_retrans,
            potentially_failed_threshold: settings.potentially_failed_threshold,
            association_max_retrans: settings.association_max_retrans,
            init_max_retrans: settings.init_max_retrans,
            max_burst: settings.max_burst,
            overshoot: settings.overshoot,
            rto: self.rto(),
            ..base
        })
    }
}

/// The cores open no more paths than they may, and would leave out the rest without a word.
fn paths_fit(paths: usize) -> Result<(), String> {
    if paths <= MOST_PATHS {
        return Ok(());
    }
    Err(format!(
        "its hosts' addresses make {paths} paths, and a connection has at most {MOST_PATHS}; take away links or set \
         paths to what needs fewer"
    ))
}
