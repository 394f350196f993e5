//! Limit of open file descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for listeners, the runtime and name servers.
const OTHER_DESCRIPTORS: u64 = 64;
/// Descriptors of a relayed connection: one to the client, one to the server.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;

/// Raises this process's limit of descriptors as far as the kernel permits; returns the number of connections that fit
/// into the limit.
pub fn raise_descriptor_limit() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Ignore errors: if the kernel refuses, the current limit stays in force.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (descriptors.saturating_sub(OTHER_DESCRIPTORS) / DESCRIPTORS_PER_CONNECTION).max(1) as usize
}
