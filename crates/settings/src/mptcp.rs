//! Settings of a Multipath TCP connection.

use super::key::{Key, Part, Takes};
pub use super::policy::{DeadPathProbe, Penalisation, SynRetransmission};
use super::row::settings;
use super::shared::{MECHANISMS_IN_START_UP, NETWORK_CONTROL, SLOW_START};
use super::tcp;
use super::unroutable;
use super::words::{schedulers, words};
use anabranch_base::time::Duration;
use anabranch_multipath::congestion::{self, Couple};
use anabranch_multipath::scheduler::information::find;
use anabranch_multipath::scheduler::{KnownPath, PathInformation};
use anabranch_multipath::{path_manager, scheduler};
use core::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

settings! {
    /// Settings of one end of a Multipath TCP connection.
    ///
    /// The default is a full mesh of subflows with LIA (RFC 6356), the scheduler `lowest-rtt`, and both mechanisms
    /// against blocked buffers.
    pub struct Config for MPTCP with the keys of tcp {
        /// Scheduler: selects the subflow for the next data.
        scheduler: &'static scheduler::Entry = scheduler::find("lowest-rtt").expect("the name is in the table")
            => Key::new("scheduler", Takes::OneOf(schedulers), "Selects the subflow of the next packet.")
                .part(Part::Multipath);
        /// Settings of each subflow. Buffers and congestion control are those of the whole connection.
        tcp: tcp::Config = tcp::Config {
            congestion: congestion::Choice::find("lia").expect("the name is in the table"),
            ..tcp::Config::default()
        }
            => SLOW_START, at congestion.options.slow_start
            => Key::new(
                "couple",
                Takes::OneOf(words::<Couple>),
                "The paths that a coupled congestion control couples. Shared bottlenecks are detected from one-way \
                 delays, which need `timestamps`; without them, round-trip times are used. Results are in \
                 shared-bottlenecks.md.",
            )
            .part(Part::Connection)
            .unless_default(), at congestion.options.couple;
        /// Path manager: selects the subflows; the connecting end opens them.
        path_manager: path_manager::Choice = path_manager::parse("fullmesh").expect("the name is in the table")
            => Key::new(
                "paths",
                Takes::PathManager,
                "Path manager: the pairs of addresses with a subflow, at most 64. Pairs without a route between them \
                 are left out.",
            )
            .part(Part::Multipath);
        /// While a full buffer of either end permits no new data, retransmit the data in flight on slower subflows on
        /// a faster one (opportunistic retransmission, Raiciu2012).
        opportunistic_retransmission: bool = true
            => Key::new(
                "opportunistic_retransmission",
                Takes::Flag,
                "While a full receive or send buffer blocks new data, retransmit the data in flight of slower \
                 subflows on a faster one (Raiciu2012). mptcp.md gives the reasons for the default.",
            )
            .part(Part::Multipath);
        /// Halve the window of the subflow that delayed the data (Raiciu2012).
        penalisation: Penalisation = Penalisation::default()
            => Key::new(
                "penalisation",
                Takes::Either(&[Takes::Flag, Takes::OneOf(Penalisation::words)]),
                "Halve the window of the subflow that blocked a full buffer, at most once per round trip \
                 (Raiciu2012): only if it is not faster than the other one, or with `\"any\"` always, as in the \
                 publication.",
            )
            .part(Part::Multipath);
        /// Use opportunistic retransmission and penalisation from the start of the connection. If this is false, they
        /// begin once the window of the fastest subflow has reached its maximum (Becke2014 §8.1.1.3).
        mechanisms_in_start_up: bool = true
            => MECHANISMS_IN_START_UP;
        /// Require DSS checksums (RFC 8684 §3.3).
        checksum: bool = false
            => Key::new(
                "dss_checksum",
                Takes::Flag,
                "Require checksums of the mappings between subflows and data (RFC 8684 §3.3).",
            )
            .part(Part::Multipath);
        /// The pair of addresses on which an unanswered SYN is retransmitted.
        syn_retransmission: SynRetransmission = SynRetransmission::Single
            => Key::new(
                "syn_retransmission",
                Takes::OneOf(words::<SynRetransmission>),
                "The pair of addresses on which an unanswered SYN is repeated. `\"multipath\"` tries each local \
                 address with the destination in turn, each for `rto_initial`, which doubles from round to round; a \
                 pair that a router reports as unreachable is left at once, except the last of a round. The host \
                 remembers the pairs of its established connections: later connections to the same address begin \
                 there.",
            )
            .part(Part::Multipath)
            .unless_default();
        /// Maximum number of address pairs that a connection tries if it retransmits its SYN on other pairs; at least
        /// one.
        syn_pairs: u32 = 64
            => Key::new(
                "syn_pairs",
                Takes::Integer { min: 1, max: 64 },
                "With `syn_retransmission = \"multipath\"`, the maximum number of pairs of addresses that a connection tries.",
            )
            .part(Part::Multipath)
            .unless_default();
        /// Time of the probes of a subflow that is considered failed.
        dead_path_probe: DeadPathProbe = DeadPathProbe::Every(Duration::from_millis(500))
            => Key::new(
                "dead_path_probe",
                Takes::Either(&[Takes::Time { zero: false }, Takes::OneOf(DeadPathProbe::words)]),
                "Interval of the probes on a subflow that is believed to have failed, and of a join without an answer; \
                 at least the shortest round-trip time. With `\"backoff\"` there are no probes: the retransmission timeout, \
                 which doubles, sends the next packet, as in Linux, so that recovery in both worlds can be compared.",
            )
            .part(Part::Multipath)
            .unless_default();
        /// Interval at which each subflow requests a way from the routers by an option of IP (Becke2014 §8.1.2); `None`
        /// for no requests.
        network_control: Option<Duration> = None
            => NETWORK_CONTROL;
        /// Characteristics of paths; empty if they are unknown.
        known_paths: Arc<[KnownPath]> = Arc::default();
        /// Pairs of an own and a peer's address without a route: no subflow is opened between them.
        unroutable: Vec<(IpAddr, IpAddr)> = Vec::new();
        /// For each gateway of the connecting host, the addresses of the hops of a source route through it, at most nine;
        /// empty unless the path manager uses gateways.
        source_routes: Vec<Vec<Ipv4Addr>> = Vec::new();
    }
}

impl Config {
    /// The characteristics of a path for the scheduler, if they are known.
    pub fn information_of(&self, local: IpAddr, remote: IpAddr) -> Option<PathInformation> {
        find(&self.known_paths, local, remote)
    }

    /// Replaces an address of a host or of a gateway by another on the same interface, which has the same routes.
    pub fn renumber(&mut self, old: IpAddr, new: IpAddr) {
        unroutable::renumber(&mut self.unroutable, old, new);
        if let (IpAddr::V4(old), IpAddr::V4(new)) = (old, new) {
            let hops = self.source_routes.iter_mut().flatten();
            hops.filter(|hop| **hop == old).for_each(|hop| *hop = new);
        }
    }
}
