//! Checks of an association's settings.

use anabranch_endpoint::ends::Ends;
pub use anabranch_settings::sctp::{
    Config, ImmediateSack, Paths, RetransmissionPath, SackPath, StreamPaths, StreamScheduler,
};
use core::net::IpAddr;

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no local address.
    NoLocalAddress,
    /// A client has no remote address, or there is no route from a local address to one of the same family.
    NoRemoteAddress,
    /// The index of the initial path is too large.
    InitialPath {
        /// The configured index.
        index: usize,
        /// Number of remote addresses.
        remotes: usize,
    },
    /// A path MTU leaves no room for data: a path must carry at least 576 bytes (IPv4) or 1280 bytes (IPv6).
    Mtu(u32),
    /// The receive buffer is smaller than the minimum window, 1500 bytes (RFC 9260 §6).
    ReceiveBuffer(u64),
    /// The number of streams is 0.
    NoStreams,
    /// The scheduler places data out of order, which SCTP does not support.
    Scheduler(&'static str),
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoLocalAddress => write!(f, "an association needs a local address"),
            Self::NoRemoteAddress => {
                write!(f, "a connecting end needs a remote address of the same family as a local address")
            }
            Self::InitialPath { index, remotes } => {
                write!(
                    f,
                    "initial path {index} does not exist: there are {remotes} remote addresses, counted from 0"
                )
            }
            Self::Mtu(mtu) => {
                write!(f, "a path MTU of {mtu} bytes is too small (576 for IPv4, 1280 for IPv6)")
            }
            Self::ReceiveBuffer(bytes) => {
                write!(
                    f,
                    "a receive buffer of {bytes} bytes is below 1500, the smallest window that SCTP offers"
                )
            }
            Self::NoStreams => write!(f, "an association needs at least one stream"),
            Self::Scheduler(name) => {
                write!(f, "scheduler {name:?} places data out of order, which SCTP does not support")
            }
        }
    }
}

impl core::error::Error for ConfigError {}

/// True if there is a known route between a local and a remote address.
pub(super) fn is_routed(config: &Config, local: IpAddr, remote: IpAddr) -> bool {
    !config.unroutable.contains(&(local, remote))
}

/// Checks the settings together with the addresses.
pub(super) fn check(config: &Config, ends: &Ends, connecting: bool) -> Result<(), ConfigError> {
    if ends.local.is_empty() {
        return Err(ConfigError::NoLocalAddress);
    }
    let leads_to =
        |own: IpAddr, remote: IpAddr| own.is_ipv4() == remote.is_ipv4() && is_routed(config, own, remote);
    let reachable = |remote: &IpAddr| ends.local.iter().any(|own| leads_to(own.ip, *remote));
    if connecting && !ends.remote.iter().any(reachable) {
        return Err(ConfigError::NoRemoteAddress);
    }
    let remotes = ends.remote.len();
    if connecting && config.initial_path >= remotes {
        return Err(ConfigError::InitialPath { index: config.initial_path, remotes });
    }
    if let Some(small) = ends.local.iter().find(|own| own.mtu < least_mtu(own.ip)) {
        return Err(ConfigError::Mtu(small.mtu));
    }
    if config.receive_buffer < 1500 {
        return Err(ConfigError::ReceiveBuffer(config.receive_buffer));
    }
    if config.streams == 0 {
        return Err(ConfigError::NoStreams);
    }
    if config.scheduler.places {
        return Err(ConfigError::Scheduler(config.scheduler.name));
    }
    Ok(())
}

/// Packet size that nearly every path supports, bytes: 1200 plus the IPv4 header, as RFC 8899 §5.1.2 recommends, and
/// the minimum link MTU of IPv6.
pub(super) const fn base_mtu(address: IpAddr) -> u32 {
    if address.is_ipv4() { 1220 } else { 1280 }
}

/// Packet size that every path supports, bytes: for IPv4 the value of RFC 9260 §7.3, for IPv6 the minimum link MTU (RFC
/// 8200 §5).
pub(super) const fn least_mtu(address: IpAddr) -> u32 {
    if address.is_ipv4() { 576 } else { 1280 }
}
