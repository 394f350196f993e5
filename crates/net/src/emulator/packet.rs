//! A packet as the emulator sees it: bytes, of which it reads the IP header and, where a queue asks, the ports.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use netem::Frame;
use wire::ip::protocol;
use wire::{Checksum, Ecn};

/// Length of an IPv4 header without options, bytes.
const IPV4_LEN: usize = 20;

/// Length of an IPv6 header, bytes.
const IPV6_LEN: usize = 40;

/// An IP packet on its way through the emulated network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPacket {
    /// At least a whole IP header without options.
    bytes: Vec<u8>,
    /// Where it goes next, by whoever forwards it.
    pub(super) next: u32,
    /// Its transport's checksum, if that is still to be finished.
    unfinished: Option<Unfinished>,
}

/// A checksum that holds the sum over addresses, protocol and length alone: whoever takes the packet off the emulated network
/// finishes it or knows that nothing can have happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Where what it is about begins.
    pub start: u16,
    /// Where it stands from there.
    pub offset: u16,
}

impl RawPacket {
    /// A packet of these bytes, or the bytes back if they do not begin with an IP header.
    ///
    /// # Errors
    /// The bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Self, Vec<u8>> {
        let long_enough = match bytes.first().map(|first| first >> 4) {
            Some(4) => {
                let header = usize::from(bytes[0] & 15) * 4;
                header >= IPV4_LEN && bytes.len() >= header
            }
            Some(6) => bytes.len() >= IPV6_LEN,
            _ => false,
        };
        if long_enough { Ok(Self { bytes, next: 0, unfinished: None }) } else { Err(bytes) }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The packet, with a checksum that is still to be finished.
    #[must_use]
    pub fn with_unfinished(mut self, unfinished: Unfinished) -> Self {
        self.unfinished = Some(unfinished);
        self
    }

    /// The checksum that is still to be finished, if there is one.
    pub const fn unfinished(&self) -> Option<Unfinished> {
        self.unfinished
    }

    /// Changes the bytes, but for their beginning with an IP header.
    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.bytes);
    }

    /// The bytes, of a packet that goes no further.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Source address.
    pub fn source(&self) -> IpAddr {
        self.address(12, 8)
    }

    /// Destination address.
    pub fn destination(&self) -> IpAddr {
        self.address(16, 24)
    }

    /// Its ECN field.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(if self.is_ipv4() { self.bytes[1] } else { self.bytes[1] >> 4 })
    }

    /// The number of what it carries, see [`protocol`].
    pub fn protocol(&self) -> u8 {
        if self.is_ipv4() { self.bytes[9] } else { self.bytes[6] }
    }

    /// Length of its IP header, bytes.
    pub fn header_len(&self) -> usize {
        if self.is_ipv4() { usize::from(self.bytes[0] & 15) * 4 } else { IPV6_LEN }
    }

    fn is_ipv4(&self) -> bool {
        self.bytes[0] >> 4 == 4
    }

    /// Whether it is a fragment, or may be the first of several.
    fn is_fragment(&self) -> bool {
        self.is_ipv4() && (self.bytes[6] & 0x3f, self.bytes[7]) != (0, 0)
    }

    fn address(&self, ipv4: usize, ipv6: usize) -> IpAddr {
        if self.is_ipv4() {
            let octets: [u8; 4] = core::array::from_fn(|at| self.bytes[ipv4 + at]);
            Ipv4Addr::from(octets).into()
        } else {
            let octets: [u8; 16] = core::array::from_fn(|at| self.bytes[ipv6 + at]);
            Ipv6Addr::from(octets).into()
        }
    }

    /// The ports behind the header as one number, if it carries a transport that has ports.
    pub(super) fn ports(&self) -> Option<u32> {
        let has_ports = matches!(self.protocol(), protocol::TCP | protocol::UDP | protocol::SCTP);
        let transport = self.bytes.get(self.header_len()..)?;
        let ports = transport.first_chunk().filter(|_| has_ports && !self.is_fragment())?;
        Some(u32::from_be_bytes(*ports))
    }
}

impl Frame for RawPacket {
    fn wire_len(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// IPv4 without the flag "don't fragment" (RFC 791 §3.1).
    fn may_fragment(&self) -> bool {
        self.is_ipv4() && self.bytes[6] & 0x40 == 0
    }

    fn ecn_capable(&self) -> bool {
        self.ecn() != Ecn::NotEct
    }

    /// Sets both bits, in the header's second octet of IPv4, whose checksum follows, or in the middle of it in IPv6
    /// (RFC 3168 §5, RFC 8200 §7).
    fn mark(&mut self) {
        if !self.is_ipv4() {
            self.bytes[1] |= 0x30;
            return;
        }
        self.bytes[1] |= Ecn::Ce as u8;
        let len = self.header_len();
        self.bytes[10..12].fill(0);
        let sum = Checksum::new().bytes(&self.bytes[..len]).finish();
        self.bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    /// A hash of addresses, protocol and ports. All fragments of a packet have the same, which has no ports in it.
    fn flow(&self) -> u32 {
        let addresses = if self.is_ipv4() { &self.bytes[12..20] } else { &self.bytes[8..40] };
        let words =
            addresses.chunks_exact(4).map(|word| word.iter().fold(0, |all, &b| all << 8 | u64::from(b)));
        let last = u64::from(self.protocol()) << 32 | u64::from(self.ports().unwrap_or_default());
        let hash = words.chain([last]).fold(0, |hash: u64, word| mix(hash ^ word));
        (hash >> 32) as u32
    }
}

/// The finaliser of `SplitMix64` (Steele et al. 2014): every bit of the result depends on every bit of the word.
const fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Body, Packet, Payload, tcp};

    fn bytes(ipv6: bool, source_port: u16, ecn: Ecn) -> Vec<u8> {
        let address = |host: u8| -> IpAddr {
            if ipv6 {
                Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(host)).into()
            } else {
                Ipv4Addr::new(10, 0, 0, host).into()
            }
        };
        let segment = tcp::Segment { source_port, payload: Payload::new(0, 100), ..tcp::Segment::default() };
        let packet = Packet { source: address(1), destination: address(2), ecn, body: Body::Tcp(segment) };
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        bytes
    }

    #[test]
    fn a_mark_is_all_that_changes_and_every_checksum_holds() {
        for ipv6 in [false, true] {
            let mut packet = RawPacket::new(bytes(ipv6, 7, Ecn::Ect0)).unwrap();
            assert!(packet.ecn_capable());
            packet.mark();
            let parsed = Packet::parse(packet.bytes()).expect("the checksums are right");
            assert_eq!(parsed.ecn, Ecn::Ce);
            assert_eq!(packet.bytes(), bytes(ipv6, 7, Ecn::Ce));
            assert!(!RawPacket::new(bytes(ipv6, 7, Ecn::NotEct)).unwrap().ecn_capable());
        }
    }

    #[test]
    fn addresses_and_flows_are_read_from_the_bytes() {
        for ipv6 in [false, true] {
            let packet = |port| RawPacket::new(bytes(ipv6, port, Ecn::NotEct)).unwrap();
            let parsed = Packet::parse(packet(7).bytes()).unwrap();
            assert_eq!((packet(7).source(), packet(7).destination()), (parsed.source, parsed.destination));
            assert_eq!(packet(7).flow(), packet(7).flow());
            assert_ne!(packet(7).flow(), packet(8).flow());
        }
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        let whole = bytes(false, 7, Ecn::NotEct);
        for len in 0..20 {
            assert_eq!(RawPacket::new(whole[..len].to_vec()), Err(whole[..len].to_vec()));
        }
        let mut options = whole[..24].to_vec();
        options[0] = 0x4f;
        assert!(RawPacket::new(options).is_err(), "options that are not there");
        assert!(RawPacket::new(vec![0x50; 60]).is_err(), "no version of IP");
        assert!(RawPacket::new(bytes(true, 7, Ecn::NotEct)[..39].to_vec()).is_err());
    }

    #[test]
    fn only_ipv4_without_the_flag_may_be_fragmented_and_fragments_share_a_flow() {
        let mut whole = bytes(false, 7, Ecn::NotEct);
        whole[6] &= !0x40;
        assert!(RawPacket::new(whole.clone()).unwrap().may_fragment());
        assert!(!RawPacket::new(bytes(true, 7, Ecn::NotEct)).unwrap().may_fragment());
        let (mut first, mut second) = (whole.clone(), whole);
        first[6] = 0x20;
        (second[6], second[7]) = (0, 100);
        second[20] ^= 0xff;
        assert_eq!(RawPacket::new(first).unwrap().flow(), RawPacket::new(second).unwrap().flow());
    }
}
