//! Limit of open file descriptors.

use crate::config::{Limits, Udp};
use crate::datagrams::MAX_PATHS;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for listeners, the runtime and name servers.
const OTHER_DESCRIPTORS: u64 = 64;
/// Share of the connections that may be UDP associations: one in this number.
const CONNECTIONS_PER_ASSOCIATION: u64 = 8;
/// Descriptors of a relayed connection: one to the client and one to the server.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;
/// Descriptors that a UDP association needs beyond those of a connection: two sockets for the client's datagrams and two
/// address families of servers, or for the client's datagrams and the stream to an upstream proxy.
const DESCRIPTORS_PER_ASSOCIATION: u64 = 2;

/// Raises this process's limit of descriptors as far as the kernel permits; returns the number of connections that fit
/// into the limit.
pub fn raise_descriptor_limit() -> usize {
    usize::try_from(fitting_connections(raise())).unwrap_or(usize::MAX)
}

/// Returns the maximum number of UDP associations, which reach an upstream proxy by `udp`.
pub fn max_associations(limits: &Limits, udp: Option<Udp>) -> usize {
    let descriptors = raise();
    let connections = fitting_connections(descriptors).min(limits.max_connections as u64);
    usize::try_from(fitting_associations(descriptors, connections, udp)).unwrap_or(usize::MAX)
}

/// Raises the limit of descriptors; returns the limit that is then in force.
fn raise() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Ignore errors: if the kernel refuses, the current limit stays in force.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The number of connections for which this number of descriptors suffices, one in eight of them a UDP association.
fn fitting_connections(descriptors: u64) -> u64 {
    let per_eight = CONNECTIONS_PER_ASSOCIATION * DESCRIPTORS_PER_CONNECTION + DESCRIPTORS_PER_ASSOCIATION;
    let available = descriptors.saturating_sub(OTHER_DESCRIPTORS);
    (u128::from(available) * u128::from(CONNECTIONS_PER_ASSOCIATION) / u128::from(per_eight)).max(1) as u64
}

/// The number of associations for which this number of descriptors suffices together with the connections, at most one in
/// eight.
fn fitting_associations(descriptors: u64, connections: u64, udp: Option<Udp>) -> u64 {
    let each = DESCRIPTORS_PER_ASSOCIATION + if udp == Some(Udp::Paths) { MAX_PATHS as u64 } else { 0 };
    let used = connections.saturating_mul(DESCRIPTORS_PER_CONNECTION).saturating_add(OTHER_DESCRIPTORS);
    (descriptors.saturating_sub(used) / each).min(connections / CONNECTIONS_PER_ASSOCIATION).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_suffice_for_associations() {
        // 960 descriptors beside the others: 426 connections with 852 descriptors, and 108 for associations.
        let connections = fitting_connections(1024);
        let associations = |udp| fitting_associations(1024, connections, udp);
        assert_eq!(connections, 426);
        assert_eq!([None, Some(Udp::Stream), Some(Udp::Paths)].map(associations), [53, 53, 10]);
        // With few connections, descriptors for one association in eight are left.
        assert_eq!(fitting_associations(1024, 80, Some(Udp::Paths)), 10);
        assert_eq!(fitting_associations(20_000, 1000, Some(Udp::Paths)), 125);
        assert_eq!((fitting_connections(10), fitting_associations(10, 1, Some(Udp::Paths))), (1, 1));
        assert!(fitting_connections(u64::MAX) > u64::MAX / 4);
    }
}
