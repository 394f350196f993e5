//! Local addresses from which to connect to an upstream proxy.

use super::netlink::Socket;
use super::plan::choose;
use super::view::View;
use crate::config::Origin;
use core::net::IpAddr;
use std::io;

/// Returns the local addresses of the configured origins, in their order. For an interface, these are the IPv4 and the
/// IPv6 address that the kernel would select; for an interface that is missing or has no carrier, there are none.
///
/// # Errors
/// If no origin has an address, or if the kernel's answer is unexpected.
pub fn addresses(origins: &[Origin]) -> io::Result<Vec<IpAddr>> {
    let mut view = View::default();
    if origins.iter().any(|origin| matches!(origin, Origin::Interface(_))) {
        view = View::of_addresses(&mut Socket::open(None)?)?;
    }
    let addresses: Vec<_> = origins.iter().flat_map(|origin| addresses_of_origin(origin, &view)).collect();
    if addresses.is_empty() && !origins.is_empty() {
        let message = "none of the interfaces in `from` is up and has an address";
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, message));
    }
    Ok(addresses)
}

fn addresses_of_origin(origin: &Origin, view: &View) -> Vec<IpAddr> {
    match origin {
        Origin::Address(address) => vec![*address],
        Origin::Interface(name) => {
            let link = view.links.iter().find(|link| link.name == *name && link.is_up());
            link.map_or_else(Vec::new, |link| {
                [true, false].into_iter().filter_map(|v4| choose(link, v4, view)).collect()
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uplinks::routing::{Address, Link};

    #[test]
    fn interface_has_addresses_while_it_is_up() {
        let address = |link, ip: &str, scope| Address { link, ip: ip.parse().unwrap(), flags: 0, scope };
        let view = View {
            links: vec![Link::test(2, "w0", true, false), Link::test(3, "w1", false, false)],
            addresses: vec![
                address(2, "fe80::2", 253),
                address(2, "2001:db8::2", 0),
                address(2, "10.0.0.2", 0),
                address(3, "10.0.1.2", 0),
            ],
            ..View::default()
        };
        let of = |text: &str| addresses_of_origin(&Origin::try_from(text.to_owned()).unwrap(), &view);
        assert_eq!(of("w0"), ["10.0.0.2", "2001:db8::2"].map(|ip| ip.parse::<IpAddr>().unwrap()));
        assert!(of("w1").is_empty() && of("w2").is_empty());
        assert_eq!(of("192.0.2.1"), ["192.0.2.1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn missing_interface_is_an_error() {
        assert!(addresses(&[]).unwrap().is_empty());
        let none = addresses(&[Origin::Interface("none-such".to_owned())]).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
