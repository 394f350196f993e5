//! Local and remote addresses and ports of a connection.

use core::net::{IpAddr, SocketAddr};

/// One address of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Largest IP packet of the interface with this address, bytes.
    pub mtu: u32,
    /// True if paths from this address are backups.
    pub backup: bool,
}

impl Address {
    /// An address whose paths are not backups.
    pub const fn new(ip: IpAddr, mtu: u32) -> Self {
        Self { ip, mtu, backup: false }
    }
}

/// The two ends of a connection from the view of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Local addresses; the connection begins on the first one. With Multipath TCP the index is the address
    /// identifier.
    pub local: Vec<Address>,
    /// Port of this end.
    pub local_port: u16,
    /// Known remote addresses; the first one is the destination of the connection. Empty on a listening end.
    pub remote: Vec<IpAddr>,
    /// Port of the other end; zero if it is not known.
    pub remote_port: u16,
}

impl Ends {
    /// A connecting end with one address, and its remote end.
    pub fn connecting(local: SocketAddr, mtu: u32, remote: SocketAddr) -> Self {
        Self {
            local: vec![Address::new(local.ip(), mtu)],
            local_port: local.port(),
            remote: vec![remote.ip()],
            remote_port: remote.port(),
        }
    }

    /// A listening end.
    pub const fn listening(local: Vec<Address>, local_port: u16) -> Self {
        Self { local, local_port, remote: Vec::new(), remote_port: 0 }
    }

    /// The first local address with its MTU and port.
    ///
    /// # Panics
    /// Without a local address.
    pub fn first_local(&self) -> (SocketAddr, u32) {
        let first = self.local.first().expect("an end has at least one address");
        (SocketAddr::new(first.ip, self.local_port), first.mtu)
    }

    /// The first remote address with its port.
    ///
    /// # Panics
    /// Without a remote address, as on a listening end.
    pub fn first_remote(&self) -> SocketAddr {
        let first = self.remote.first().expect("a connecting end has a remote address");
        SocketAddr::new(*first, self.remote_port)
    }

    /// Replaces an address of either host by another on the same interface.
    pub fn renumber(&mut self, old: IpAddr, new: IpAddr) {
        let local = self.local.iter_mut().map(|own| &mut own.ip);
        for ip in local.chain(&mut self.remote).filter(|ip| **ip == old) {
            *ip = new;
        }
    }
}
