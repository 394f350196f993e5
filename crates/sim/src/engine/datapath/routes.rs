//! Routes that the ends of flows use.

use crate::engine::link::route_hash;
use anabranch_netem::{FlowHash, Interface};
use anabranch_wire::Packet;
use core::net::IpAddr;

/// The routes that one end of a flow has used.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    known: Vec<(Key, u32)>,
    last: usize,
}

/// The addresses of a packet, and the hash of its flow if routers choose by it.
type Key = (u64, FlowHash);

impl Routes {
    #[inline]
    pub(super) fn find(&mut self, packet: &Packet, by_flow: bool) -> Option<u32> {
        let key = key(packet, by_flow)?;
        // Most packets use the same route as the previous one.
        if let Some(&(known, start)) = self.known.get(self.last)
            && known == key
        {
            return Some(start);
        }
        self.last = self.known.iter().position(|&(known, _)| known == key)?;
        Some(self.known[self.last].1)
    }

    /// Forgets the routes of flows, if routers choose by them.
    pub(super) fn forget(&mut self, by_flow: bool) {
        if by_flow {
            *self = Self::default();
        }
    }

    pub(super) fn remember(&mut self, packet: &Packet, by_flow: bool, start: u32) {
        if let Some(key) = key(packet, by_flow) {
            self.last = self.known.len();
            self.known.push((key, start));
        }
    }
}

#[inline]
fn key(packet: &Packet, by_flow: bool) -> Option<Key> {
    let hash = if by_flow { route_hash(packet) } else { FlowHash::default() };
    Some((addresses(packet)?, hash))
}

/// The addresses of a packet in one word. IPv4 addresses are used directly. For IPv6 it contains the numbers of the
/// interfaces and the generations of their addresses; the highest bit distinguishes it from IPv4 addresses below
/// 128.0.0.0.
#[inline]
fn addresses(packet: &Packet) -> Option<u64> {
    let bits = |address| match address {
        IpAddr::V4(address) => Some(u64::from(address.to_bits())),
        IpAddr::V6(_) => Interface::with_generation(address)
            .map(|(interface, generation)| 1 << 31 | u64::from(generation) << 23 | u64::from(interface.0)),
    };
    Some(bits(packet.source)? << 32 | bits(packet.destination)?)
}
