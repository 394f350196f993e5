//! Checks for local addresses and for routes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io::{self, ErrorKind};

/// True for an address of this machine, whose firewall may permit local connections. Packets to a local address have this
/// address as their source, so the kernel's choice of the source shows it without a packet.
pub fn is_own(address: IpAddr) -> bool {
    is_own_by_source(address, source_for(address))
}

/// True if this machine has a route to the address.
pub fn has_route(address: IpAddr) -> bool {
    source_for(address).is_ok()
}

/// The source address that the kernel selects for packets to an address.
fn source_for(address: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    // Any port is suitable; 9 is the discard port.
    socket.connect((address, 9))?;
    Ok(socket.local_addr()?.ip())
}

/// An address without a route is not local. After any other error (no descriptor, no memory, a firewall rule), the address is
/// assumed to be local, which is the safe answer because clients must not reach local addresses.
fn is_own_by_source(address: IpAddr, source: io::Result<IpAddr>) -> bool {
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
    fn own_addresses_are_known() {
        assert!(is_own("127.0.0.1".parse().unwrap()) && has_route("127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn address_counts_as_own_on_kernel_error() {
        let address: IpAddr = "1.1.1.1".parse().unwrap();
        let failed = |code| is_own_by_source(address, Err(io::Error::from_raw_os_error(code)));
        for code in [libc::EMFILE, libc::ENOBUFS, libc::EACCES, libc::EPERM, libc::EADDRINUSE] {
            assert!(failed(code), "{code}");
        }
        for code in [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EADDRNOTAVAIL] {
            assert!(!failed(code), "{code}");
        }
    }
}
