//! Nodes, the ends of their links, and the addresses of these ends.

use core::net::IpAddr;

/// Maximum number of links with addresses.
pub const MAX_LINKS: usize = 1 << 22;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpVersion {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// The version of an address.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Suffix of names in scenarios and results that select a version.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::V4 => ":v4",
            Self::V6 => ":v6",
        }
    }

    /// Length of an IP header of this version without options, bytes.
    pub const fn header_len(self) -> u32 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }
}

/// The versions of the Internet Protocol of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpVersions {
    /// IPv4 only.
    #[default]
    V4,
    /// IPv6 only.
    V6,
    /// IPv4 and IPv6 (dual stack).
    Both,
}

impl IpVersions {
    /// The versions, IPv4 first.
    pub const fn all(self) -> &'static [IpVersion] {
        match self {
            Self::V4 => &[IpVersion::V4],
            Self::V6 => &[IpVersion::V6],
            Self::Both => &[IpVersion::V4, IpVersion::V6],
        }
    }

    /// True if a version is one of them.
    pub const fn has(self, version: IpVersion) -> bool {
        match self {
            Self::V4 => matches!(version, IpVersion::V4),
            Self::V6 => matches!(version, IpVersion::V6),
            Self::Both => true,
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
