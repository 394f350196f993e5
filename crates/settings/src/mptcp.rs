//! Settings of a Multipath TCP connection.

use super::tcp;
use crate::policy::Penalisation;
use anabranch_multipath::{congestion, path_manager, scheduler};
use core::net::IpAddr;

/// Settings of one end of a Multipath TCP connection.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of each subflow. Buffers and congestion control are those of the whole connection.
    pub tcp: tcp::Config,
    /// Scheduler: selects the subflow for the next data.
    pub scheduler: &'static scheduler::Entry,
    /// Path manager: selects the subflows; the connecting end opens them.
    pub path_manager: path_manager::Choice,
    /// While a full buffer of either end permits no new data, retransmit on a faster subflow the data in flight on
    /// slower ones (Raiciu2012).
    pub opportunistic_retransmission: bool,
    /// Halve the window of the subflow that delayed the data (Raiciu2012).
    pub penalisation: Penalisation,
    /// Both from the beginning, not only once the window of the fastest subflow has reached its maximum (Becke2014 §8.1.1.3).
    pub mechanisms_in_start_up: bool,
    /// Require DSS checksums (RFC 8684 §3.3).
    pub checksum: bool,
    /// Pairs of an own and a peer's address that no route connects: no subflow is tried there.
    pub unroutable: Vec<(IpAddr, IpAddr)>,
}

impl Default for Config {
    /// A full mesh of subflows with LIA, RFC 6356, the scheduler `lowest-rtt`, and both mechanisms against blocked
    /// buffers.
    fn default() -> Self {
        let congestion = congestion::Choice::find("lia").expect("it is in the table");
        Self {
            tcp: tcp::Config { congestion, ..tcp::Config::default() },
            scheduler: scheduler::find("lowest-rtt").expect("it is in the table"),
            path_manager: path_manager::parse("fullmesh").expect("it is in the table"),
            opportunistic_retransmission: true,
            penalisation: Penalisation::default(),
            mechanisms_in_start_up: true,
            checksum: false,
            unroutable: Vec::new(),
        }
    }
}
