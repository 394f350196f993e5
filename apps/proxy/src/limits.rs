//! Limit of open file descriptors.

use super::config::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for listeners, the runtime and name servers.
const OTHER_DESCRIPTORS: u64 = 64;
/// Share of the connections that may be UDP associations: one in this number.
const CONNECTIONS_PER_ASSOCIATION: usize = 8;
/// Descriptors of eight relayed connections, each with one to the client and one to the server, of which one is a UDP
/// association. That one has two more: sockets for the client's datagrams, and for two address families of servers.
const DESCRIPTORS_PER_EIGHT: u128 = 8 * 2 + 2;

/// Raises this process's limit of descriptors as far as the kernel permits; returns the number of connections that fit
/// into the limit.
pub fn raise_descriptor_limit() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Ignore errors: if the kernel refuses, the current limit stays in force.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let fitting = u128::from(descriptors.saturating_sub(OTHER_DESCRIPTORS)) * 8 / DESCRIPTORS_PER_EIGHT;
    usize::try_from(fitting).unwrap_or(usize::MAX).max(1)
}

/// Returns the maximum number of UDP associations.
pub fn max_associations(limits: &Limits) -> usize {
    (limits.max_connections.min(raise_descriptor_limit()) / CONNECTIONS_PER_ASSOCIATION).max(1)
}
