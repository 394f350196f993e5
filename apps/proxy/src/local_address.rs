//! Which addresses are this machine's own, and which it has a route to.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io::{self, ErrorKind};

/// Whether it is an address of this machine, which its own firewall may let in. Packets to such an address have it as their
/// source, so the kernel can be asked without a packet.
pub fn is_own(address: IpAddr) -> bool {
    judge(address, source_for(address))
}

/// Whether this machine has a route to an address.
pub fn has_route(address: IpAddr) -> bool {
    source_for(address).is_ok()
}

/// The source of packets to an address.
fn source_for(address: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    // Port 9 (discard): any port will do.
    socket.connect((address, 9))?;
    Ok(socket.local_addr()?.ip())
}

/// An address without a route is not ours. If the kernel had another error (no descriptor, no memory, a rule of the firewall), the
/// address is taken for ours, which is the safe answer.
fn judge(address: IpAddr, source: io::Result<IpAddr>) -> bool {
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
        let failed = |code| judge(address, Err(io::Error::from_raw_os_error(code)));
        for code in [libc::EMFILE, libc::ENOBUFS, libc::EACCES, libc::EPERM, libc::EADDRINUSE] {
            assert!(failed(code), "{code}");
        }
        for code in [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EADDRNOTAVAIL] {
            assert!(!failed(code), "{code}");
        }
    }
}
