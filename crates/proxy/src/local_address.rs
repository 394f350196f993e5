//! Which addresses are this machine's own.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io::{self, ErrorKind};

/// Whether it is an address of this machine, whose firewall lets it reach itself. The kernel says so without a packet: what
/// goes to such an address comes from it.
pub fn is_own(address: IpAddr) -> bool {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // Port 9 (discard): any will do.
    let source = std::net::UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        Ok(socket.local_addr()?.ip())
    });
    judge(address, source)
}

/// An address that no network leads to is nobody's; of one that the kernel had no answer for (no descriptor, no memory, a
/// rule of the firewall) the worse is assumed.
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
    fn the_machines_own_addresses_are_known() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn what_the_kernel_cannot_say_is_taken_for_the_machines_own() {
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
