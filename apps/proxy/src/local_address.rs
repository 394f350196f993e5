//! Checks whether an address belongs to this machine, and whether there is a route to it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io::{self, ErrorKind};

/// True for an address of this machine, which clients must not reach through a proxy: the firewall may permit local
/// connections. The kernel sends packets to a local address from the same address, so the source that it selects for
/// the address is enough for this check; no packet is sent.
pub fn is_local(address: IpAddr) -> bool {
    is_local_by_source(address, source_for(address))
}

/// True if this machine has a route to the address.
pub fn has_route(address: IpAddr) -> bool {
    source_for(address).is_ok()
}

/// Returns the source address that the kernel selects for packets to an address.
fn source_for(address: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    // The port does not matter, because nothing is sent; 9 is the discard port.
    socket.connect((address, 9))?;
    Ok(socket.local_addr()?.ip())
}

/// True if the source that the kernel selected for `address` is this address. An address without a route is not local.
/// After any other error (no descriptor, no memory, a firewall rule) the address counts as local, so that clients
/// cannot reach it.
fn is_local_by_source(address: IpAddr, source: io::Result<IpAddr>) -> bool {
    match source {
        Ok(source) => source == address,
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable | ErrorKind::AddrNotAvailable
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_known() {
        assert!(is_local("127.0.0.1".parse().unwrap()) && has_route("127.0.0.1".parse().unwrap()));
        assert!(!is_local("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn address_counts_as_local_on_kernel_error() {
        let address: IpAddr = "1.1.1.1".parse().unwrap();
        let failed = |code| is_local_by_source(address, Err(io::Error::from_raw_os_error(code)));
        for code in [libc::EMFILE, libc::ENOBUFS, libc::EACCES, libc::EPERM, libc::EADDRINUSE] {
            assert!(failed(code), "{code}");
        }
        for code in [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EADDRNOTAVAIL] {
            assert!(!failed(code), "{code}");
        }
    }
}
