//! Addresses that clients may reach. An address is checked after the look-up of its name; otherwise a name could be
//! used to reach a forbidden address (DNS rebinding).

use crate::local_address::is_local;
use crate::network::Network;
use crate::upstream::nat64::Nat64;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Creates an IPv4 network from its address and prefix length.
const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Network {
    Network::of(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits)
}

/// Creates an IPv6 network from its first two groups and its prefix length.
const fn v6(first: u16, second: u16, bits: u8) -> Network {
    Network::of(IpAddr::V6(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0)), bits)
}

/// Networks that are not globally reachable according to the registries of special-purpose addresses (RFC 6890 and its
/// updates), and multicast.
const SPECIAL: [Network; 17] = [
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
    // IETF protocol assignments, which include Teredo.
    v6(0x2001, 0, 23),
    v6(0x2001, 0xdb8, 32),
    v6(0x3fff, 0, 20),
];

/// Public addresses at which a cloud offers services to the virtual machines on its hosts: metadata, agents and name
/// servers.
const CLOUD: [Network; 4] = [
    // Azure's host, and the metadata service of Equinix Metal.
    v4(168, 63, 129, 16, 32),
    v4(192, 80, 8, 124, 32),
    // IBM Cloud's service network.
    v4(161, 26, 0, 0, 16),
    v4(166, 8, 0, 0, 14),
];

/// The range from which IPv6 global unicast addresses are assigned. No server has an address outside it.
const GLOBAL: Network = v6(0x2000, 0, 3);

/// An IPv6 network whose addresses contain an IPv4 address.
struct EmbeddedIpv4 {
    network: Network,
    /// Distance of the IPv4 address from the end of the IPv6 address, in bits.
    from_end: u32,
    /// The IPv4 address is stored as its exclusive or with this mask.
    mask: u32,
    /// True if the host or the network replaces the IPv6 address by the IPv4 address, so packets never reach the
    /// former.
    translated: bool,
}

const fn embedded(network: Network, from_end: u32, mask: u32, translated: bool) -> EmbeddedIpv4 {
    EmbeddedIpv4 { network, from_end, mask, translated }
}

const EMBEDDINGS: [EmbeddedIpv4; 5] = [
    // IPv4-mapped (RFC 4291 §2.5.5.2) and IPv4-translated addresses (SIIT, RFC 2765 §2.1).
    embedded(Network::of(IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0)), 96), 0, 0, true),
    embedded(Network::of(IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0)), 96), 0, 0, false),
    // 6to4 (RFC 3056 §2).
    embedded(v6(0x2002, 0, 16), 80, 0, false),
    // The server and the client of a Teredo address (RFC 4380 §4).
    embedded(v6(0x2001, 0, 32), 64, 0, false),
    embedded(v6(0x2001, 0, 32), 0, u32::MAX, false),
];

/// Addresses that clients may reach.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Private and other special networks that clients may reach as an exception.
    pub allow: Vec<Network>,
    /// Networks that clients may not reach, even if `allow` contains them.
    pub deny: Vec<Network>,
    /// NAT64 prefixes in addition to the well-known one.
    pub nat64: Vec<Nat64>,
}

impl Targets {
    /// True if clients may reach an address. If it contains an IPv4 address, that must be permitted as well.
    pub fn permit(&self, address: IpAddr) -> bool {
        let is_in = |networks: &[Network], address| networks.iter().any(|network| network.contains(address));
        let denied = |address| is_in(&self.deny, address);
        let reachable = |address| is_in(&self.allow, address) || !(is_special(address) || is_local(address));
        let embeddings = || EMBEDDINGS.iter().filter(|embedded| embedded.network.contains(address));
        let prefixes = || self.nat64.iter().chain([&Nat64::WELL_KNOWN]);
        let translated: Vec<IpAddr> = prefixes().filter_map(|prefix| prefix.inner(address)).collect();
        let inner: Vec<IpAddr> = embeddings().filter_map(|embedded| embedded.inner(address)).collect();
        let is_translated = !translated.is_empty() || embeddings().any(|embedded| embedded.translated);
        !denied(address)
            && (is_translated || reachable(address))
            && translated.into_iter().chain(inner).all(|inner| !denied(inner) && reachable(inner))
    }
}

impl EmbeddedIpv4 {
    /// Returns the IPv4 address that an address of this network contains.
    fn inner(&self, address: IpAddr) -> Option<IpAddr> {
        let IpAddr::V6(v6) = address else { return None };
        Some(Ipv4Addr::from_bits((v6.to_bits() >> self.from_end) as u32 ^ self.mask).into())
    }
}

fn is_special(address: IpAddr) -> bool {
    address.is_ipv6() && !GLOBAL.contains(address)
        || SPECIAL.iter().chain(&CLOUD).any(|network| network.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(targets: &Targets, address: &str) -> bool {
        targets.permit(address.parse().expect("an address"))
    }

    #[test]
    fn private_ipv4_is_denied_inside_ipv6() {
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
            "::ffff:0:10.0.0.1",
            "::ffff:0:1.1.1.1",
            "4000::1",
            "e000::1",
            "1000::1",
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
    fn host_of_a_cloud_is_denied_unless_allowed() {
        for address in ["168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::a83f:8110", "161.26.0.10"] {
            assert!(!permits(&Targets::default(), address), "{address}");
        }
        let allow = vec!["168.63.129.16".parse().expect("a network")];
        assert!(permits(&Targets { allow, ..Targets::default() }, "168.63.129.16"));
        assert!(permits(&Targets::default(), "168.63.129.17"));
    }

    #[test]
    fn nat64_addresses_are_checked_as_ipv4() {
        let prefix = Nat64::try_from("2606:4700:64::/96".to_owned()).expect("a prefix");
        let targets = Targets { nat64: vec![prefix], ..Targets::default() };
        assert!(permits(&targets, "2606:4700:64::1.1.1.1") && permits(&targets, "2606:4700:65::1"));
        assert!(!permits(&targets, "2606:4700:64::10.0.0.1"));
        assert!(permits(&Targets::default(), "2606:4700:64::10.0.0.1"));
        // The NAT64 prefix for local use (RFC 8215) is not a global network.
        let local = Nat64::try_from("64:ff9b:1::/96".to_owned()).expect("a prefix");
        let targets = Targets { nat64: vec![local], ..Targets::default() };
        assert!(permits(&targets, "64:ff9b:1::1.1.1.1") && !permits(&targets, "64:ff9b:1::7f00:1"));
    }

    #[test]
    fn deny_overrides_allow() {
        let network = |text: &str| text.parse().expect("a network");
        let targets = Targets {
            allow: vec![network("10.0.0.0/8")],
            deny: vec![network("10.9.0.0/16"), network("1.1.1.1")],
            nat64: Vec::new(),
        };
        assert!(permits(&targets, "10.1.2.3") && permits(&targets, "::ffff:10.1.2.3"));
        assert!(!permits(&targets, "10.9.2.3") && !permits(&targets, "192.168.1.1"));
        assert!(!permits(&targets, "1.1.1.1") && permits(&targets, "1.0.0.1"));
    }

    #[test]
    fn denied_ipv4_is_denied_inside_ipv6() {
        let network = |text: &str| text.parse().expect("a network");
        let prefixes = ["::ffff:0:0/96", "2002::/16", "64:ff9b::/96", "2001::/32", "::ffff:0:0:0/96"];
        let allow_all = vec![network("::/0"), network("0.0.0.0/0")];
        for (number, address) in [
            "::ffff:1.1.1.1",
            "2002:101:101::1",
            "64:ff9b::1.1.1.1",
            "2001:0:808:808::fefe:fefe",
            "::ffff:0:1.1.1.1",
        ]
        .into_iter()
        .enumerate()
        {
            let open = Targets { allow: allow_all.clone(), ..Targets::default() };
            assert!(permits(&open, address), "{address}");
            for deny in [prefixes[number], "1.1.1.0/24"] {
                let targets =
                    Targets { allow: allow_all.clone(), deny: vec![network(deny)], ..Targets::default() };
                assert!(!permits(&targets, address), "{address} with {deny}");
            }
        }
        let teredo_server =
            Targets { allow: allow_all, deny: vec![network("8.8.8.8")], ..Targets::default() };
        assert!(!permits(&teredo_server, "2001:0:808:808::fefe:fefe"));
    }
}
