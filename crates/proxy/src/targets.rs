//! Which addresses a proxy may be sent to. Asked for addresses after names have become addresses, so that no name leads
//! where its address may not (DNS rebinding).

use super::network::Network;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Network {
    Network::of(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits)
}

const fn v6(first: u16, second: u16, bits: u8) -> Network {
    Network::of(IpAddr::V6(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0)), bits)
}

/// What is not globally reachable by the registries of special-purpose addresses (RFC 6890 and its updates), and multicast.
const SPECIAL: [Network; 23] = [
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    v4(169, 254, 0, 0, 16),
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 3),
    // Unspecified, loopback and IPv4-compatible addresses.
    v6(0, 0, 96),
    v6(0x64, 0xff9b, 32),
    v6(0x100, 0, 64),
    // IETF protocol assignments, Teredo among them, which has IPv4 addresses inside.
    v6(0x2001, 0, 23),
    v6(0x2001, 0xdb8, 32),
    v6(0x3fff, 0, 20),
    v6(0x5f00, 0, 16),
    v6(0xfc00, 0, 7),
    // Link-local, the site-local addresses of old, and multicast.
    v6(0xfe00, 0, 7),
];

/// What a network translates or tunnels to IPv4, with where the IPv4 address is in it, bits from the end.
const WITH_IPV4: [(Network, u32); 3] = [
    // IPv4-mapped, NAT64 (RFC 6052), 6to4.
    (Network::of(IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0)), 96), 0),
    (v6(0x64, 0xff9b, 96), 0),
    (v6(0x2002, 0, 16), 80),
];

/// Which addresses clients may reach.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Networks that are allowed although they are private, or the like.
    pub allow: Vec<Network>,
    /// Networks that are denied whatever else is said.
    pub deny: Vec<Network>,
}

impl Targets {
    /// Whether clients may reach an address. Of one that stands for an IPv4 address, that one counts.
    pub fn permit(&self, address: IpAddr) -> bool {
        let address = inner(address);
        let is_in = |networks: &[Network]| networks.iter().any(|network| network.contains(address));
        !is_in(&self.deny) && (is_in(&self.allow) || !(is_in(&SPECIAL) || is_own(address)))
    }
}

/// The IPv4 address that an IPv6 address stands for, or the address itself.
fn inner(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    WITH_IPV4
        .iter()
        .find(|(network, _)| network.contains(address))
        .map_or(address, |&(_, from_end)| Ipv4Addr::from_bits((v6.to_bits() >> from_end) as u32).into())
}

/// Whether it is an address of this machine, whose firewall lets it reach itself. The kernel says so without a packet: what
/// goes to such an address comes from it.
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // Port 9 (discard): any will do.
    let source = std::net::UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(targets: &Targets, address: &str) -> bool {
        targets.permit(address.parse().expect("an address"))
    }

    #[test]
    fn private_addresses_are_denied_in_every_guise() {
        let targets = Targets::default();
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "239.1.1.1",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "64:ff9b::192.168.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            "2001:0:1:2::3",
            "fe80::1",
            "fec0::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
        ] {
            assert!(!permits(&targets, address), "{address}");
        }
        for address in
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::1.1.1.1", "::ffff:1.1.1.1"]
        {
            assert!(permits(&targets, address), "{address}");
        }
    }

    #[test]
    fn what_is_allowed_is_and_what_is_denied_is_not() {
        let network = |text: &str| text.parse().expect("a network");
        let targets = Targets {
            allow: vec![network("10.0.0.0/8")],
            deny: vec![network("10.9.0.0/16"), network("1.1.1.1")],
        };
        assert!(permits(&targets, "10.1.2.3") && permits(&targets, "::ffff:10.1.2.3"));
        assert!(!permits(&targets, "10.9.2.3") && !permits(&targets, "192.168.1.1"));
        assert!(!permits(&targets, "1.1.1.1") && permits(&targets, "1.0.0.1"));
    }

    #[test]
    fn the_machines_own_addresses_are_known() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.1".parse().unwrap()));
    }
}
