//! Routes that the ends of flows use.

use anabranch_netem::Interface;
use anabranch_wire::Packet;
use core::net::IpAddr;

/// The routes that one end of a flow has used.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    known: Vec<(u64, u32)>,
    last: usize,
}

impl Routes {
    #[inline]
    pub(super) fn find(&mut self, packet: &Packet) -> Option<u32> {
        let key = key(packet)?;
        // The route is nearly always that of the previous packet.
        if let Some(&(known, start)) = self.known.get(self.last)
            && known == key
        {
            return Some(start);
        }
        self.last = self.known.iter().position(|&(known, _)| known == key)?;
        Some(self.known[self.last].1)
    }

    pub(super) fn remember(&mut self, packet: &Packet, start: u32) {
        if let Some(key) = key(packet) {
            self.last = self.known.len();
            self.known.push((key, start));
        }
    }
}

/// The addresses of a packet in one word. IPv4 addresses are used directly; for IPv6 the numbers of the
/// interfaces, distinguished by their highest bit from the addresses of the simulated IPv4 network.
#[inline]
fn key(packet: &Packet) -> Option<u64> {
    let bits = |address| match address {
        IpAddr::V4(address) => Some(u64::from(address.to_bits())),
        IpAddr::V6(_) => Interface::of_address(address).map(|interface| 1 << 31 | u64::from(interface.0)),
    };
    Some(bits(packet.source)? << 32 | bits(packet.destination)?)
}
