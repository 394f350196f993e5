//! Choices of routers: among equally short paths by a hash, and by tables that override them.

use super::Interface;
use core::net::IpAddr;
use std::collections::BTreeMap;

/// Hash of a packet's flow, by which routers choose among equally short paths (RFC 2992).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowHash(u64);

impl FlowHash {
    /// The hash of packets with these addresses, this transport and, except for fragments, these ports.
    pub fn new([source, destination]: [IpAddr; 2], protocol: u8, ports: Option<[u16; 2]>) -> Self {
        let [source_port, destination_port] = ports.unwrap_or_default().map(u64::from);
        let mut hash = mixed(u64::from(protocol) << 32 | source_port << 16 | destination_port);
        for address in [source, destination] {
            let bits = match address {
                IpAddr::V4(address) => address.to_bits().into(),
                IpAddr::V6(address) => address.to_bits(),
            };
            hash = mixed(hash ^ (bits >> 64) as u64);
            hash = mixed(hash ^ bits as u64);
        }
        Self(hash)
    }

    /// Choice of a node among `ways` routes, as an index. Different nodes choose independently.
    pub(super) fn choose(self, seed: u64, node: usize, ways: usize) -> usize {
        let hash = mixed(self.0 ^ mixed(seed ^ mixed(node as u64 + 1)));
        ((u128::from(hash) * ways as u128) >> 64) as usize
    }
}

/// Mixes 64 bits, so that each bit of the result depends on all of them (`SplitMix64`; Steele, Lea, Flood 2014).
const fn mixed(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Forwarding at routers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding<'a> {
    /// True if routers choose among equally short paths by the hash of a flow; otherwise they take the first link.
    pub ecmp: bool,
    /// Seed of the choice.
    pub seed: u64,
    /// Routers with settings of their own.
    pub routers: Vec<RouterTable<'a>>,
}

/// Settings of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterTable<'a> {
    /// The router.
    pub name: &'a str,
    /// True if the router chooses among equally short paths.
    pub ecmp: bool,
    /// Index of the router's link for hosts without a route, except hosts at its own links; `None` for the shortest
    /// path.
    pub default: Option<usize>,
    /// Routes to the hosts' addresses at single links: the index of that link, and of the router's own link.
    pub routes: Vec<[usize; 2]>,
}

/// The settings of a router, as interfaces.
#[derive(Clone, Debug)]
pub(super) struct Router {
    pub(super) ecmp: bool,
    pub(super) default: Option<Interface>,
    /// Interface towards a host's address, by the index of the link that has the address.
    pub(super) routes: BTreeMap<usize, Interface>,
}

impl Router {
    /// The settings of a table, whose links are those of the router.
    ///
    /// # Panics
    ///
    /// If a link does not belong to the router.
    pub(super) fn new(table: &RouterTable<'_>, links: &[[&str; 2]]) -> Self {
        let own = |link: usize| {
            let end = links[link].iter().position(|&name| name == table.name);
            Interface::new(link, end.expect("a link of the router"))
        };
        Self {
            ecmp: table.ecmp,
            default: table.default.map(own),
            routes: table.routes.iter().map(|&[to, by]| (to, own(by))).collect(),
        }
    }

    pub(super) fn overrides(&self) -> bool {
        self.default.is_some() || !self.routes.is_empty()
    }
}
