//! Addresses of the ends of links, and the interfaces that share one.

use super::address::{InterfaceAddress, MAX_ADDRESSES};
use super::node::{Interface, IpVersion, IpVersions};
use std::collections::BTreeMap;

/// The addresses of a link's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddresses {
    /// Versions of the packets that the link carries, and of its addresses.
    pub versions: IpVersions,
    /// Number of addresses of each version at both ends, at most [`MAX_ADDRESSES`].
    pub counts: [u8; 2],
    /// For each end, the other link of the same node whose addresses this end uses. That link must have its own
    /// addresses.
    pub of: [Option<Interface>; 2],
}

impl Default for LinkAddresses {
    fn default() -> Self {
        Self { versions: IpVersions::default(), counts: [1; 2], of: [None; 2] }
    }
}

/// The addresses of all links.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    /// Addresses of each link, by its index; empty if all links have the default.
    links: Vec<LinkAddresses>,
    /// For an interface whose addresses other interfaces use: these interfaces.
    sharers: BTreeMap<Interface, Vec<Interface>>,
}

impl Attached {
    /// # Panics
    ///
    /// If there are addresses for some links only, or too many at one end.
    pub fn new(links: usize, addresses: &[LinkAddresses]) -> Self {
        assert!(addresses.is_empty() || addresses.len() == links, "addresses for some links only");
        let mut sharers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (link, own) in addresses.iter().enumerate() {
            assert!(own.counts.iter().all(|&count| count <= MAX_ADDRESSES), "too many addresses");
            for (end, of) in own.of.iter().enumerate() {
                if let Some(owner) = *of {
                    sharers.entry(owner).or_default().push(Interface::new(link, end));
                }
            }
        }
        Self { links: addresses.to_vec(), sharers }
    }

    fn link(&self, interface: Interface) -> LinkAddresses {
        self.links.get(interface.link()).copied().unwrap_or_default()
    }

    /// True if the link of an interface carries packets of a version.
    pub fn carries(&self, interface: Interface, version: IpVersion) -> bool {
        self.link(interface).versions.has(version)
    }

    /// Number of an interface's own addresses of a version.
    pub fn count(&self, interface: Interface, version: IpVersion) -> u8 {
        let link = self.link(interface);
        let own = link.of[interface.end()].is_none() && link.versions.has(version);
        if own { link.counts[interface.end()] } else { 0 }
    }

    /// The addresses of an interface of a version.
    pub fn addresses(
        &self,
        interface: Interface,
        version: IpVersion,
    ) -> impl Iterator<Item = InterfaceAddress> + Clone + use<> {
        let numbers = 0..self.count(interface, version);
        numbers.map(move |number| InterfaceAddress { interface, version, number })
    }

    /// True if several interfaces have the addresses of this one.
    pub fn is_shared(&self, interface: Interface) -> bool {
        self.sharers.contains_key(&interface)
    }

    /// The interfaces of each address that several interfaces have.
    pub fn shared(&self) -> impl Iterator<Item = impl Iterator<Item = Interface> + '_> + '_ {
        self.sharers.iter().map(|(owner, others)| [*owner].into_iter().chain(others.iter().copied()))
    }

    /// The interfaces with an address, its own first, whose links carry packets of its version.
    pub fn interfaces(&self, address: InterfaceAddress) -> impl Iterator<Item = Interface> + '_ {
        let sharers = self.sharers.get(&address.interface).into_iter().flatten().copied();
        let carries = move |interface: &Interface| self.carries(*interface, address.version);
        [address.interface].into_iter().chain(sharers).filter(carries)
    }

    /// True if an interface has an address.
    pub fn is_at(&self, address: InterfaceAddress, interface: Interface) -> bool {
        address.interface == interface || self.interfaces(address).any(|other| other == interface)
    }
}
