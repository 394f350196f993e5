//! Addresses of interfaces. An address is computed from the numbers of its link, end and generation, and these
//! numbers can be computed from the address.

use super::{Interface, IpVersion, MAX_LINKS};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The prefix `2001:db8::/32`, for documentation (RFC 3849).
const DOCUMENTATION_PREFIX: u128 = 0x2001_0db8 << 96;

/// `10.0.0.0`, the start of the first IPv4 addresses: a network of four for each link (RFC 1918).
const FIRST_ADDRESSES: u32 = 10 << 24;

/// `100.64.0.0`, the start of the shared addresses (RFC 6598), to which the first addresses of later generations belong.
const RENUMBERED_ADDRESSES: u32 = 100 << 24 | 64 << 16;

/// `172.16.0.0`, the start of the further IPv4 addresses: a network of 32 for each link (RFC 1918).
const FURTHER_ADDRESSES: u32 = 172 << 24 | 16 << 16;

/// The prefix `fe80::/64`, of addresses that are valid on one link (RFC 4291 §2.5.6).
const LINK_LOCAL_PREFIX: u128 = 0xfe80 << 112;

/// Maximum number of links whose interfaces can get new IPv4 addresses during a run, or have several.
pub const MAX_RENUMBERED_LINKS: usize = 1 << 12;

/// Maximum number of addresses of an interface for each version of IP.
pub const MAX_ADDRESSES: u8 = 16;

/// Number of times that the second and later IPv4 addresses of an interface can be replaced.
pub const MAX_FURTHER_GENERATION: u8 = 7;

/// Distance of the numbers of an interface's IPv6 addresses.
const NUMBER_SHIFT: u32 = 16;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceAddress {
    /// The interface.
    pub interface: Interface,
    /// The version of IP.
    pub version: IpVersion,
    /// Number among the interface's addresses of this version, below [`MAX_ADDRESSES`].
    pub number: u8,
}

impl InterfaceAddress {
    /// The first address of an interface.
    pub const fn first(interface: Interface, version: IpVersion) -> Self {
        Self { interface, version, number: 0 }
    }

    /// Index of the interface's link.
    pub const fn link(self) -> usize {
        self.interface.link()
    }

    /// The address after `generation` renumberings; the first is that of generation 0. Later generations of the first
    /// IPv4 address, and all further IPv4 addresses, exist on the first [`MAX_RENUMBERED_LINKS`] links only. Further
    /// addresses have generations up to [`MAX_FURTHER_GENERATION`].
    pub const fn ip(self, generation: u8) -> IpAddr {
        let (link, end) = (self.link() as u32, self.interface.end() as u32);
        match (self.version, self.number, generation) {
            (IpVersion::V4, 0, 0) => IpAddr::V4(Ipv4Addr::from_bits(FIRST_ADDRESSES + link * 4 + end + 1)),
            (IpVersion::V4, 0, _) => {
                let network = generation as u32 * MAX_RENUMBERED_LINKS as u32 + link;
                IpAddr::V4(Ipv4Addr::from_bits(RENUMBERED_ADDRESSES + network * 4 + end + 1))
            }
            (IpVersion::V4, ..) => {
                let network = generation as u32 * MAX_RENUMBERED_LINKS as u32 + link;
                let host = 2 * self.number as u32 - 1 + end;
                IpAddr::V4(Ipv4Addr::from_bits(FURTHER_ADDRESSES + network * 2 * MAX_ADDRESSES as u32 + host))
            }
            (IpVersion::V6, ..) => {
                let network = generation as u128 * MAX_LINKS as u128 + link as u128;
                let host = (self.number as u128) << NUMBER_SHIFT | (end + 1) as u128;
                IpAddr::V6(Ipv6Addr::from_bits(DOCUMENTATION_PREFIX | network << 64 | host))
            }
        }
    }

    /// The link-local address of the interface: `fe80::/64`, followed by the numbers of the link and of the link's end.
    pub const fn link_local(self) -> IpAddr {
        let (link, end) = (self.link() as u128, self.interface.end() as u128);
        IpAddr::V6(Ipv6Addr::from_bits(LINK_LOCAL_PREFIX | link << 32 | (end + 1)))
    }

    /// The interface's address that has this value, and its generation; `None` if no interface has it.
    #[inline]
    pub const fn with_generation(address: IpAddr) -> Option<(Self, u8)> {
        match address {
            IpAddr::V4(address) => Self::of_ipv4(address.to_bits()),
            IpAddr::V6(address) => Self::of_ipv6(address.to_bits()),
        }
    }

    /// The interface's address that has this value in any generation; `None` if no interface has it.
    #[inline]
    pub const fn of(address: IpAddr) -> Option<Self> {
        match Self::with_generation(address) {
            Some((found, _)) => Some(found),
            None => None,
        }
    }

    #[inline]
    const fn of_ipv4(bits: u32) -> Option<(Self, u8)> {
        let offset = bits.wrapping_sub(FIRST_ADDRESSES);
        if offset < 1 << 24 {
            return Self::checked(IpVersion::V4, offset / 4, (0, offset % 4), 0);
        }
        let offset = bits.wrapping_sub(RENUMBERED_ADDRESSES);
        if offset < 1 << 22 {
            let network = offset / 4;
            let generation = network / MAX_RENUMBERED_LINKS as u32;
            if generation == 0 {
                return None;
            }
            return Self::checked(
                IpVersion::V4,
                network % MAX_RENUMBERED_LINKS as u32,
                (0, offset % 4),
                generation,
            );
        }
        let offset = bits.wrapping_sub(FURTHER_ADDRESSES);
        if offset >= 1 << 20 {
            return None;
        }
        let (network, host) = (offset / (2 * MAX_ADDRESSES as u32), offset % (2 * MAX_ADDRESSES as u32));
        if host == 0 || host == 2 * MAX_ADDRESSES as u32 - 1 {
            return None;
        }
        let (link, generation) =
            (network % MAX_RENUMBERED_LINKS as u32, network / MAX_RENUMBERED_LINKS as u32);
        Self::checked(IpVersion::V4, link, (host.div_ceil(2), (host - 1) % 2 + 1), generation)
    }

    #[inline]
    const fn of_ipv6(bits: u128) -> Option<(Self, u8)> {
        if bits >> 64 == LINK_LOCAL_PREFIX >> 64 {
            let link = (bits >> 32) as u32;
            if link as usize >= MAX_LINKS {
                return None;
            }
            return Self::checked(IpVersion::V6, link, (0, bits as u32), 0);
        }
        let (network, host) = ((bits ^ DOCUMENTATION_PREFIX) >> 64, bits as u64);
        let generation = network / MAX_LINKS as u128;
        if generation > u8::MAX as u128 || host >> NUMBER_SHIFT >= MAX_ADDRESSES as u64 {
            return None;
        }
        let (number, end) = ((host >> NUMBER_SHIFT) as u32, host as u32 & ((1 << NUMBER_SHIFT) - 1));
        Self::checked(IpVersion::V6, (network % MAX_LINKS as u128) as u32, (number, end), generation as u32)
    }

    /// Address of host 1 or 2 of a link.
    #[inline]
    const fn checked(
        version: IpVersion,
        link: u32,
        (number, host): (u32, u32),
        generation: u32,
    ) -> Option<(Self, u8)> {
        if host == 1 || host == 2 {
            let interface = Interface(link * 2 + host - 1);
            Some((Self { interface, version, number: number as u8 }, generation as u8))
        } else {
            None
        }
    }
}

impl Interface {
    /// The first address of a version.
    pub const fn address(self, version: IpVersion) -> IpAddr {
        InterfaceAddress::first(self, version).ip(0)
    }

    /// The interface with this address, of either scope and any generation; `None` if no interface has it.
    #[inline]
    pub const fn of_address(address: IpAddr) -> Option<Self> {
        match InterfaceAddress::of(address) {
            Some(found) => Some(found.interface),
            None => None,
        }
    }

    /// The interface with this address, and the generation of the address.
    #[inline]
    pub const fn with_generation(address: IpAddr) -> Option<(Self, u8)> {
        match InterfaceAddress::with_generation(address) {
            Some((found, generation)) => Some((found.interface, generation)),
            None => None,
        }
    }
}
