//! From which addresses connections may begin.

use super::netlink::Socket;
use super::plan::choose;
use super::view::View;
use crate::config::Origin;
use core::net::IpAddr;
use std::io;

/// The addresses of these origins, in their order. Of an interface these are the one of IPv4 and the one of IPv6 that the kernel would
/// take; none, while it is not there or has no carrier.
///
/// # Errors
/// If there is none, or the kernel does not answer as it should.
pub fn addresses(origins: &[Origin]) -> io::Result<Vec<IpAddr>> {
    let mut view = View::default();
    if origins.iter().any(|origin| matches!(origin, Origin::Interface(_))) {
        view = View::of_addresses(&mut Socket::open(None)?)?;
    }
    let addresses: Vec<_> = origins.iter().flat_map(|origin| of_origin(origin, &view)).collect();
    if addresses.is_empty() && !origins.is_empty() {
        let said = "no interface that connections should begin from is up and has an address";
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, said));
    }
    Ok(addresses)
}

fn of_origin(origin: &Origin, view: &View) -> Vec<IpAddr> {
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
    fn an_interface_is_what_it_has_while_it_is_up() {
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
        let of = |text: &str| of_origin(&Origin::try_from(text.to_owned()).unwrap(), &view);
        assert_eq!(of("w0"), ["10.0.0.2", "2001:db8::2"].map(|ip| ip.parse::<IpAddr>().unwrap()));
        assert!(of("w1").is_empty() && of("w2").is_empty());
        assert_eq!(of("192.0.2.1"), ["192.0.2.1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn none_at_all_is_an_error_and_no_wish_is_none() {
        assert!(addresses(&[]).unwrap().is_empty());
        let none = addresses(&[Origin::Interface("none-such".to_owned())]).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
