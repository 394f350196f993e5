//! That a process may change the network, and is the only one of its kind in a network namespace.

use super::error::Error;
use rustix::thread::{CapabilitySet, capabilities};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// That there is one of a kind in a network namespace: an abstract name, which goes with the process.
#[derive(Debug)]
pub struct InstanceLock {
    _socket: UnixDatagram,
}

impl InstanceLock {
    /// Takes the place of this name; `kind` is what is in it.
    ///
    /// # Errors
    /// If there is another.
    pub fn here(name: &str, kind: &str) -> Result<Self, Error> {
        let refused = |error: std::io::Error| {
            Error::Refused(match error.kind() {
                std::io::ErrorKind::AddrInUse => format!("another {kind} runs here already"),
                _ => format!("cannot see whether another {kind} runs here: {error}"),
            })
        };
        let socket = SocketAddr::from_abstract_name(name).and_then(|name| UnixDatagram::bind_addr(&name));
        Ok(Self { _socket: socket.map_err(refused)? })
    }
}

/// Whether one of this name runs here.
pub fn runs(name: &str) -> bool {
    let connect = |name| UnixDatagram::unbound()?.connect_addr(&name);
    SocketAddr::from_abstract_name(name).and_then(connect).is_ok()
}

/// Checks that this process may change the network.
///
/// # Errors
///
/// If it may not, with the remedy.
pub fn permitted(command: &str) -> Result<(), Error> {
    let sets = capabilities(None);
    if sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN)) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{command} needs CAP_NET_ADMIN: run it as root, or by systemd with AmbientCapabilities=CAP_NET_ADMIN"
    )))
}
