//! How many descriptors the process may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for other purposes than connections: listeners, the runtime, name servers.
const OTHER_DESCRIPTORS: u64 = 64;
/// Descriptors of a connection: one to the client, one to the server.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;

/// Raises the limit of descriptors as far as this process may, and returns how many connections that is room for.
pub fn room_for_connections() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the kernel refuses, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (descriptors.saturating_sub(OTHER_DESCRIPTORS) / DESCRIPTORS_PER_CONNECTION).max(1) as usize
}
