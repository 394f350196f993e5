//! Conversion of a scenario's settings to those of each protocol.

use super::applications::Streams;
use super::build::{Plan, Setup};
use super::delivery::Service;
use crate::scenario::model;
use anabranch_endpoint::Address;
use anabranch_host::Protocol;
use anabranch_multipath::MAX_PATHS;
use anabranch_multipath::buffer::{Rescheduling, Sides};
use anabranch_multipath::path_manager::{AddressId, Pair};
use anabranch_multipath::rtt::RtoBounds;
use anabranch_netem::Interface;
use anabranch_sctp as sctp;
use anabranch_settings::policy::{Reliability, SctpPaths};
use anabranch_tcp::{mptcp, tcp};
use anabranch_wire::sctp::encapsulation::Ports;
use core::net::IpAddr;

/// Header bytes of SCTP with one `DATA` chunk: 12 and 16.
const SCTP_OVERHEAD: u32 = 28;

/// Address identifiers are bytes.
const MAX_ADDRESSES: usize = 256;

const ONE_STREAM: Streams = Streams { count: 1, unordered: false, reliability: Reliability::Full };

impl Setup<'_> {
    pub(super) fn tcp(&self, settings: &model::Tcp) -> Plan {
        let config = Protocol::Tcp(self.tcp_config(settings));
        Plan {
            protocols: [config.clone(), config],
            addresses: self.first().map(|address| vec![address]),
            service: Service::Stream,
            streams: ONE_STREAM,
            message: None,
        }
    }

    pub(super) fn mptcp(&self, tcp: &model::Tcp, settings: &model::Mptcp) -> Result<Plan, String> {
        let addresses = |end| {
            let addresses = self.interfaces(end).into_iter().map(|(interface, mtu)| Address {
                ip: self.ip(interface),
                mtu,
                backup: settings.backup.contains(&interface.link()),
            });
            let addresses: Vec<_> = addresses.collect();
            if addresses.len() > MAX_ADDRESSES {
                return Err(format!("MPTCP supports at most {MAX_ADDRESSES} addresses of a host"));
            }
            Ok(addresses)
        };
        let config = mptcp::Config {
            tcp: self.tcp_config(tcp),
            scheduler: settings.scheduler,
            path_manager: settings.paths,
            opportunistic_retransmission: settings.opportunistic_retransmission,
            penalisation: settings.penalisation,
            mechanisms_in_start_up: settings.mechanisms_in_start_up,
            checksum: settings.dss_checksum,
            unroutable: Vec::new(),
        };
        // Identifiers as assigned by the hosts: the index of an address in the list.
        let [local, remote] = [0, 1].map(|end| (0..=u8::MAX).take(self.interfaces(end).len()).map(AddressId));
        let wanted =
            config.path_manager.build().wanted(&local.collect::<Vec<_>>(), &remote.collect::<Vec<_>>());
        let ends = [0, 1].map(|end| self.interfaces(end));
        let routed = |pair: &&Pair| {
            let (from, to) = (ends[0][usize::from(pair.local.0)].0, ends[1][usize::from(pair.remote.0)].0);
            self.is_routed(from, to)
        };
        check_path_count(wanted.iter().filter(routed).count())?;
        let connecting = mptcp::Config { unroutable: self.unroutable(0), ..config.clone() };
        Ok(Plan {
            protocols: [Protocol::Mptcp(connecting), Protocol::Mptcp(config)],
            addresses: [addresses(0)?, addresses(1)?],
            service: Service::Stream,
            streams: ONE_STREAM,
            message: None,
        })
    }

    /// A route connects two interfaces.
    fn is_routed(&self, from: Interface, to: Interface) -> bool {
        self.pairs.iter().any(|&(near, far, _)| (near, far) == (from, to))
    }

    /// The pairs of addresses without a route; the address of this end is first.
    fn unroutable(&self, end: usize) -> Vec<(IpAddr, IpAddr)> {
        let [near, far] = [0, 1].map(|end| self.interfaces(end));
        let pairs = near.iter().flat_map(|&(from, _)| far.iter().map(move |&(to, _)| (from, to)));
        let missing = pairs.filter(|&(from, to)| !self.is_routed(from, to));
        let addresses = missing.map(|(from, to)| [self.ip(from), self.ip(to)]);
        addresses.map(|pair| (pair[end], pair[1 - end])).collect()
    }

    pub(super) fn sctp(&self, settings: &model::Sctp) -> Result<Plan, String> {
        let [local, remote] = [0, 1].map(|end| self.interfaces(end).len());
        check_path_count(match settings.paths {
            SctpPaths::Destination => remote.max(local),
            SctpPaths::FullMesh => local * remote - self.unroutable(0).len(),
        })?;
        let config = |end| Ok::<_, String>(Protocol::Sctp(Box::new(self.sctp_config(settings, end)?)));
        let address = |(interface, mtu)| Address::new(self.ip(interface), mtu);
        let mtu = self.interfaces(0).iter().map(|&(_, mtu)| mtu).min().unwrap_or_default();
        Ok(Plan {
            protocols: [config(0)?, config(1)?],
            addresses: [0, 1].map(|end| self.interfaces(end).into_iter().map(address).collect()),
            service: Service::Messages,
            streams: Streams {
                count: settings.streams,
                unordered: !settings.ordered,
                reliability: self.declared.workload.reliability(),
            },
            message: Some(u64::from(
                mtu.saturating_sub(SCTP_OVERHEAD + self.scenario.ip.header_len()).max(1),
            )),
        })
    }

    fn rto(&self) -> RtoBounds {
        let common = &self.declared.common;
        RtoBounds { initial: common.rto_initial, min: common.rto_min, max: common.rto_max }
    }

    fn tcp_config(&self, settings: &model::Tcp) -> tcp::Config {
        let common = &self.declared.common;
        let defaults = tcp::Config::default();
        let (syn_retransmission, syn_pairs) = match &self.declared.protocol {
            model::Protocol::Mptcp { mptcp, .. } => (mptcp.syn_retransmission, mptcp.syn_pairs),
            _ => (defaults.syn_retransmission, defaults.syn_pairs),
        };
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
            ssthresh_floor: settings.ssthresh_floor,
            whole_packets: settings.whole_packets,
            recovery: settings.recovery,
            timestamps: settings.timestamps,
            nagle: settings.nagle,
            keepalive: settings.keepalive,
            user_timeout: settings.user_timeout,
            ecn: common.ecn,
            syn_retransmission,
            syn_pairs,
            ..defaults
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
        let initial_path = match settings.initial_path.first().filter(|_| end == 0) {
            Some(link) => remotes
                .iter()
                .position(|(interface, _)| interface.link() == *link)
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
            penalisation: settings.penalisation,
            mechanisms_in_start_up: settings.mechanisms_in_start_up,
            streams: settings.streams,
            sack_delay: settings.sack_delay,
            immediate_sack: settings.immediate_sack,
            partial_reliability: self.declared.workload.reliability() != Reliability::Full,
            sack_path: settings.sack_path,
            retransmission: settings.retransmission,
            stream_scheduler: settings.stream_scheduler,
            i_data: settings.i_data,
            ecn: self.declared.common.ecn,
            asconf: settings.asconf,
            pmtu_discovery: settings.pmtu_discovery,
            encapsulation: settings.udp_encapsulation.then(Ports::default),
            unroutable: self.unroutable(end),
            heartbeat_interval: settings.heartbeat_interval,
            path_max_retrans: settings.path_max_retrans,
            potentially_failed_threshold: settings.potentially_failed_threshold,
            association_max_retrans: settings.association_max_retrans,
            init_max_retrans: settings.init_max_retrans,
            max_burst: settings.max_burst,
            overshoot: settings.overshoot,
            nagle: settings.nagle,
            tail_loss_probe: settings.tail_loss_probe,
            abc_limit: settings.abc_limit,
            ssthresh_floor: settings.ssthresh_floor,
            rto: self.rto(),
            ..base
        })
    }
}

/// Checks the number of paths: the cores open at most their maximum, and would silently omit the rest.
fn check_path_count(paths: usize) -> Result<(), String> {
    if paths <= MAX_PATHS {
        return Ok(());
    }
    Err(format!(
        "its hosts' addresses make {paths} paths, and a connection has at most {MAX_PATHS}; remove links or \
         set paths to a value with fewer"
    ))
}
