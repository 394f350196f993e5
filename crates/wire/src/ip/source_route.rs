//! Loose source routes in IPv4 headers (RFC 791 §3.1): the packet visits the listed addresses on its way.
//!
//! ```text
//! type 131 | length | pointer, from 4 | addresses | padding                       4 · (1 + addresses) bytes
//! ```
//!
//! The header's destination is the next hop; the addresses from the pointer on follow it, and the last of them is the
//! destination of the packet. Checksums of transports cover that last address (RFC 9293 §3.1). A hop replaces the
//! header's destination by the next address, records its own address in that place, and moves the pointer by 4. A hop
//! after which no address is left also removes the option, so that the rest of the way carries a plain packet
//! (Boccassi et al. 2013). RFC 791 leaves the recorded route in the packet.

use super::ipv4;
use super::option_list::{IPV4_END, OPTION_HEADER_LEN, find_data, ipv4_list_end};
use core::net::Ipv4Addr;
use core::ops::Range;

/// Type of the option: copied into fragments, class 0, number 3.
pub const TYPE: u8 = 131;

/// Maximum number of addresses.
pub const MAX_ADDRESSES: usize = 9;

/// The pointer at the first address: octets of the option are counted from 1.
const FIRST_POINTER: usize = 4;

/// Bytes of an address.
const ADDRESS_LEN: usize = 4;

/// Maximum number of bytes behind type and length.
const MAX_DATA_LEN: usize = ipv4::Header::MAX_OPTIONS_LEN - OPTION_HEADER_LEN;

/// The option. It may have invalid contents, as received from a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRoute {
    /// Number of bytes in `data`.
    len: u8,
    /// The bytes behind type and length: the pointer and the addresses. Unused bytes are zero.
    data: [u8; MAX_DATA_LEN],
}

/// State of a source route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The next address, and the number of addresses behind it.
    Next(Ipv4Addr, usize),
    /// All addresses have been visited.
    Complete,
    /// The length, or the pointer, is none of an address, or there is no address.
    Invalid,
}

impl SourceRoute {
    /// A route to `addresses`: the further hops, and the destination last. The first hop is the destination of the header.
    ///
    /// # Panics
    ///
    /// If there is no address, or there are more than [`MAX_ADDRESSES`].
    pub fn new(addresses: &[Ipv4Addr]) -> Self {
        assert!((1..=MAX_ADDRESSES).contains(&addresses.len()), "{} addresses", addresses.len());
        let octets = addresses.iter().flat_map(Ipv4Addr::octets);
        let data: Vec<u8> = core::iter::once(FIRST_POINTER as u8).chain(octets).collect();
        Self::of(&data)
    }

    /// An option with these bytes behind type and length.
    ///
    /// # Panics
    ///
    /// If the bytes are more than fit into a header.
    pub fn of(data: &[u8]) -> Self {
        let mut option = Self { len: data.len() as u8, data: [0; MAX_DATA_LEN] };
        option.data[..data.len()].copy_from_slice(data);
        option
    }

    /// Bytes that a route with this number of addresses takes in an IP header.
    pub const fn len_of(addresses: usize) -> u32 {
        (ADDRESS_LEN * (1 + addresses)) as u32
    }

    /// The bytes behind type and length.
    pub fn data(&self) -> &[u8] {
        &self.data[..usize::from(self.len)]
    }

    /// Bytes that the option takes in an IP header, padding included.
    pub fn wire_len(&self) -> u32 {
        (OPTION_HEADER_LEN + usize::from(self.len)).next_multiple_of(4) as u32
    }

    /// The state of the route.
    pub fn progress(&self) -> Progress {
        self.next().map_or_else(
            |progress| progress,
            |place| {
                let left = (usize::from(self.len) - place.end) / ADDRESS_LEN;
                Progress::Next(self.address(place), left)
            },
        )
    }

    /// The destination of a packet whose header has the destination `header`.
    pub fn destination(&self, header: Ipv4Addr) -> Ipv4Addr {
        let end = usize::from(self.len);
        self.next().map_or(header, |_| self.address(end - ADDRESS_LEN..end))
    }

    /// The header's next destination, and the option behind a hop with the address `by`; no option if the hop removes it.
    /// `None` if the route is complete or invalid.
    pub fn followed(&self, by: Ipv4Addr) -> Option<(Ipv4Addr, Option<Self>)> {
        let place = self.next().ok()?;
        let to = self.address(place.clone());
        if place.end == usize::from(self.len) {
            return Some((to, None));
        }
        let mut next = *self;
        next.data[0] += ADDRESS_LEN as u8;
        next.data[place].copy_from_slice(&by.octets());
        Some((to, Some(next)))
    }

    /// Place of the next address in the data, or the state of a route without one.
    fn next(&self) -> Result<Range<usize>, Progress> {
        let [pointer, addresses @ ..] = self.data() else { return Err(Progress::Invalid) };
        let pointer = usize::from(*pointer);
        let is_aligned = addresses.len() % ADDRESS_LEN == 0 && pointer % ADDRESS_LEN == 0;
        if addresses.is_empty() || !is_aligned || pointer < FIRST_POINTER {
            return Err(Progress::Invalid);
        }
        let start = 1 + pointer - FIRST_POINTER;
        if start >= usize::from(self.len) { Err(Progress::Complete) } else { Ok(start..start + ADDRESS_LEN) }
    }

    /// # Panics
    ///
    /// If the place is not that of an address.
    fn address(&self, place: Range<usize>) -> Ipv4Addr {
        <[u8; ADDRESS_LEN]>::try_from(&self.data[place]).expect("four bytes").into()
    }

    /// Appends the options of an IPv4 header.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.wire_len() as usize;
        out.extend_from_slice(&[TYPE, self.len + OPTION_HEADER_LEN as u8]);
        out.extend_from_slice(self.data());
        out.resize(end, IPV4_END);
    }

    /// The first source route among the options of an IPv4 header. An option with an invalid length has no data.
    pub(crate) fn find(options: &[u8]) -> Option<Self> {
        let data = &options[find_place(options)?];
        Some(Self::of(data))
    }

    /// The source route in the header of an IP packet's bytes, if it has one.
    pub fn in_packet(packet: &[u8]) -> Option<Self> {
        Self::find(options_of(packet)?)
    }

    /// The last destination of an IPv4 packet's bytes: that of its source route, or else `header`, that of its header.
    pub(crate) fn last_destination(packet: &[u8], header: Ipv4Addr) -> Ipv4Addr {
        Self::in_packet(packet).map_or(header, |route| route.destination(header))
    }

    /// Changes an IP packet's bytes as a hop with the address `by` does; returns the number of bytes that the header has
    /// lost. Other options stay.
    ///
    /// # Panics
    ///
    /// If the packet has no source route with a next address.
    pub fn follow_in(packet: &mut Vec<u8>, by: Ipv4Addr) -> usize {
        let fixed = ipv4::Header::LEN as usize;
        let options = options_of(packet).expect("the packet has options");
        let place = find_place(options).expect("the packet has a source route");
        let (to, next) =
            Self::of(&options[place.clone()]).followed(by).expect("the route has a next address");
        packet[fixed - ADDRESS_LEN..fixed].copy_from_slice(&to.octets());
        let (start, end) = (fixed + place.start, fixed + place.end);
        let lost = if let Some(next) = next {
            packet[start..end].copy_from_slice(next.data());
            0
        } else {
            remove_option(packet, start - OPTION_HEADER_LEN..end)
        };
        ipv4::set_checksum(packet);
        lost
    }
}

/// The options in the header of an IPv4 packet's bytes; `None` if it has none, or the header is not whole.
fn options_of(packet: &[u8]) -> Option<&[u8]> {
    let &first = packet.first()?;
    let fixed = ipv4::Header::LEN as usize;
    let end = usize::from(first & 15) * 4;
    if first >> 4 != 4 || end <= fixed {
        return None;
    }
    packet.get(fixed..end)
}

/// The place of the data of the first source route; empty if the length of the option is invalid.
fn find_place(options: &[u8]) -> Option<Range<usize>> {
    let place = find_data((true, TYPE), options)?;
    let stated = options.get(place.start - 1).copied().unwrap_or_default();
    let is_whole = usize::from(stated) == place.len() + OPTION_HEADER_LEN;
    Some(if is_whole { place } else { place.start..place.start })
}

/// Removes an option, at a place in an IPv4 packet's bytes, and the padding behind the others; returns the number of bytes
/// by which the header is shorter.
fn remove_option(packet: &mut Vec<u8>, place: Range<usize>) -> usize {
    let fixed = ipv4::Header::LEN as usize;
    let end = usize::from(packet[0] & 15) * 4;
    let list_end = fixed + ipv4_list_end(&packet[fixed..end]);
    let mut others = [&packet[fixed..place.start], &packet[place.end..list_end.max(place.end)]].concat();
    others.resize(others.len().next_multiple_of(4), IPV4_END);
    let lost = end - fixed - others.len();
    packet.splice(fixed..end, others);
    packet[0] -= (lost / 4) as u8;
    let total = u16::from_be_bytes([packet[2], packet[3]]).saturating_sub(lost as u16);
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    lost
}

#[cfg(test)]
#[path = "source_route_tests.rs"]
mod tests;
