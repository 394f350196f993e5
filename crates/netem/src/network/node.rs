//! Nodes, the ends of their links, and the addresses of these.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum number of links with addresses.
pub const MAX_LINKS: usize = 1 << 22;

/// The prefix `2001:db8::/32`.
const DOCUMENTATION: u128 = 0x2001_0db8 << 96;

/// `100.64.0.0`, the start of the shared addresses (RFC 6598), of which later generations are.
const SHARED: u32 = 100 << 24 | 64 << 16;

/// Maximum number of IPv4 links that have addresses of later generations.
pub const MAX_RENUMBERED_LINKS: usize = 1 << 12;

/// The prefix `fe80::/64`, of addresses that are valid on one link (RFC 4291 §2.5.6).
const LINK_LOCAL: u128 = 0xfe80 << 112;

/// Scope of the addresses of a link (RFC 4007).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Valid everywhere.
    #[default]
    Global,
    /// Valid from one end of the link to the other; IPv6 only.
    Link,
}

/// A version of the Internet Protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// Length of an IP header of this version without options, bytes.
    pub const fn header_len(self) -> u32 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }
}

/// An end of a link, and at the same time the direction of the link that leaves from there: twice the link's index, plus
/// one for the second end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interface(pub u32);

impl Interface {
    /// The end `end` (0 or 1) of a link.
    pub const fn new(link: usize, end: usize) -> Self {
        Self((link * 2 + end) as u32)
    }

    /// The interface at the other end of the link.
    #[must_use]
    pub const fn opposite(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// Index of the link.
    pub const fn link(self) -> usize {
        self.0 as usize / 2
    }

    /// Which end of the link, 0 or 1.
    pub const fn end(self) -> usize {
        self.0 as usize % 2
    }

    /// The index of the interface, and of the direction that leaves from it.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The first address of the interface: each link is a network of four addresses within 10.0.0.0/8, or one within
    /// `2001:db8::/32`, the prefix for documentation (RFC 3849).
    pub const fn address(self, version: IpVersion) -> IpAddr {
        let (link, host) = (self.link() as u32, self.end() as u32 + 1);
        match version {
            IpVersion::V4 => IpAddr::V4(Ipv4Addr::from_bits((10 << 24) + link * 4 + host)),
            IpVersion::V6 => {
                IpAddr::V6(Ipv6Addr::from_bits(DOCUMENTATION | (link as u128) << 64 | host as u128))
            }
        }
    }

    /// The address of the interface after `generation` renumberings; the first address is that of generation 0. Later
    /// IPv4 addresses are within 100.64.0.0/10, and only the first [`MAX_RENUMBERED_LINKS`] links have them.
    pub const fn address_of(self, version: IpVersion, generation: u8) -> IpAddr {
        let (link, host) = (self.link() as u32, self.end() as u32 + 1);
        match (generation, self.address(version)) {
            (0, first) => first,
            (_, IpAddr::V4(_)) => {
                let network = generation as u32 * MAX_RENUMBERED_LINKS as u32 + link;
                IpAddr::V4(Ipv4Addr::from_bits(SHARED + network * 4 + host))
            }
            (_, IpAddr::V6(first)) => {
                let generation = (generation as u128 * MAX_LINKS as u128) << 64;
                IpAddr::V6(Ipv6Addr::from_bits(first.to_bits() | generation))
            }
        }
    }

    /// The link-local address of the interface: `fe80::/64`, followed by the numbers of the link and of the link's end.
    pub const fn link_local_address(self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from_bits(LINK_LOCAL | (self.link() as u128) << 32 | (self.end() + 1) as u128))
    }

    /// The interface with this address, of either scope and any generation; `None` if no interface has it.
    #[inline]
    pub const fn of_address(address: IpAddr) -> Option<Self> {
        match Self::with_generation(address) {
            Some((interface, _)) => Some(interface),
            None => None,
        }
    }

    /// The interface with this address, and the generation of the address.
    #[inline]
    pub const fn with_generation(address: IpAddr) -> Option<(Self, u8)> {
        let (link, host, generation) = match address {
            IpAddr::V4(address) => {
                let offset = address.to_bits().wrapping_sub(10 << 24);
                if offset < 1 << 24 {
                    (offset / 4, offset % 4, 0)
                } else {
                    let offset = address.to_bits().wrapping_sub(SHARED);
                    let (network, host) = (offset / 4, offset % 4);
                    let generation = network / MAX_RENUMBERED_LINKS as u32;
                    if generation == 0 || generation > u8::MAX as u32 {
                        return None;
                    }
                    (network % MAX_RENUMBERED_LINKS as u32, host, generation as u8)
                }
            }
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                let (network, host) = if bits >> 64 == LINK_LOCAL >> 64 {
                    ((bits as u64 >> 32) as u128, bits as u32 as u64)
                } else {
                    ((bits ^ DOCUMENTATION) >> 64, bits as u64)
                };
                let generation = network / MAX_LINKS as u128;
                let is_link_local = bits >> 64 == LINK_LOCAL >> 64;
                if generation > u8::MAX as u128 || is_link_local && generation > 0 || host > 2 {
                    return None;
                }
                ((network % MAX_LINKS as u128) as u32, host as u32, generation as u8)
            }
        };
        if host == 1 || host == 2 { Some((Self(link * 2 + host - 1), generation)) } else { None }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name.
    pub name: String,
    /// True if the node is at the end of a flow and therefore does not forward.
    pub host: bool,
    /// The interfaces of the node, in the order of the links.
    pub interfaces: Vec<Interface>,
}
