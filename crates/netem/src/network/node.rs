//! Nodes, the ends of their links, and the addresses there.

use core::net::Ipv4Addr;

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

    /// The number as an index: of the interface, and of the direction that leaves from it.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its address: each link is a network of four addresses within 10.0.0.0/8.
    pub const fn address(self) -> Ipv4Addr {
        Ipv4Addr::from_bits((10 << 24) + (self.link() as u32) * 4 + self.end() as u32 + 1)
    }

    /// The interface that has this address, if it can be one.
    pub const fn of_address(address: Ipv4Addr) -> Option<Self> {
        let offset = address.to_bits().wrapping_sub(10 << 24);
        let host = offset % 4;
        if offset >= 1 << 24 || host == 0 || host == 3 { None } else { Some(Self(offset / 4 * 2 + host - 1)) }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name.
    pub name: String,
    /// At the end of a flow: does not forward.
    pub host: bool,
    /// Its ends of links, in the order of the links.
    pub interfaces: Vec<Interface>,
}
