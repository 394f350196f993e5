//! What a Multipath TCP connection is set to.

use crate::tcp;
use core::net::IpAddr;

/// Settings of one end of a Multipath TCP connection.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of each subflow. Send and receive buffer are those of the whole connection.
    pub tcp: tcp::Config,
    /// This host's addresses, the initial subflow's first. The index is the address identifier.
    pub addresses: Vec<Address>,
    /// Resend the segment that blocks a closed receive window on another subflow (Raiciu2012).
    pub opportunistic_retransmission: bool,
    /// Halve the window of the subflow that held it up (Raiciu2012).
    pub penalisation: bool,
    /// Require DSS checksums (RFC 8684 §3.3).
    pub checksum: bool,
}

/// One address of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Largest IP packet on subflows from it, bytes.
    pub mtu: u32,
    /// Subflows on it are backups.
    pub backup: bool,
}
