//! What a Multipath TCP connection is set to.

use crate::tcp;
use multipath::{path_manager, scheduler};

/// Settings of one end of a Multipath TCP connection.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of each subflow. Buffers and congestion control are those of the whole connection.
    pub tcp: tcp::Config,
    /// Which subflow takes the next data.
    pub scheduler: &'static scheduler::Entry,
    /// Which subflows there are; the connecting end opens them.
    pub path_manager: path_manager::Choice,
    /// Resend the segment that blocks a closed receive window on another subflow (Raiciu2012).
    pub opportunistic_retransmission: bool,
    /// Halve the window of the subflow that held it up (Raiciu2012).
    pub penalisation: bool,
    /// Require DSS checksums (RFC 8684 §3.3).
    pub checksum: bool,
}
