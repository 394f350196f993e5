//! A packet in the emulator: bytes, of which it reads the IP header and, for some queues, the ports.

use crate::offload::{UDP_CHECKSUM, Unfinished};
use anabranch_middlebox::FlowKey;
use anabranch_netem::{FlowHash, Frame};
use anabranch_wire::ip::network_option::NetworkOption;
use anabranch_wire::ip::source_route::SourceRoute;
use anabranch_wire::ip::{ipv4, ipv6, protocol};
use anabranch_wire::sctp::NetworkControl;
use anabranch_wire::{Checksum, Ecn, sctp};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Length of an IPv4 header without options, bytes.
const IPV4_LEN: usize = 20;

/// Length of an IPv6 header, bytes.
const IPV6_LEN: usize = 40;

/// An IP packet in the emulated network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPacket {
    /// At least a whole IP header without options.
    bytes: Vec<u8>,
    /// Next hop of the packet; used by the forwarding component.
    pub(super) next: u32,
    /// The transport's checksum, if the sender has left it to be computed.
    unfinished: Option<Unfinished>,
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

    /// The packet, marked as having an unfinished checksum.
    #[must_use]
    pub fn with_unfinished(mut self, unfinished: Unfinished) -> Self {
        self.unfinished = Some(unfinished);
        self
    }

    /// The unfinished checksum, if there is one.
    pub const fn unfinished(&self) -> Option<Unfinished> {
        self.unfinished
    }

    /// Finishes the checksum of `bytes`, a copy of this packet, if that is unfinished.
    pub(super) fn finish_checksum(&self, bytes: &mut [u8]) {
        let Some(unfinished) = self.unfinished else { return };
        let (start, at) = (usize::from(unfinished.start), unfinished.checksum_at());
        let sum = bytes.get(start..).map(|covered| Checksum::new().bytes(covered).finish());
        // Zero means that a UDP datagram has no checksum (RFC 768), which IPv6 forbids.
        let sum = sum.map(|sum| if sum == 0 && unfinished.offset == UDP_CHECKSUM { 0xffff } else { sum });
        if let Some((sum, place)) = sum.zip(bytes.get_mut(at..at + 2)) {
            place.copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Appends the bytes to a buffer, with a finished checksum.
    pub(crate) fn append_finished(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        self.finish_checksum(&mut out[start..]);
    }

    /// The packet's version of IP.
    pub(super) fn version(&self) -> u8 {
        self.bytes[0] >> 4
    }

    /// Changes the bytes, except the IP header at their beginning.
    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.bytes);
    }

    /// The bytes of a packet that is not forwarded any more.
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

    /// ECN field of the packet.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(if self.is_ipv4() { self.bytes[1] } else { self.bytes[1] >> 4 })
    }

    /// The number of the packet's transport protocol, see [`protocol`].
    pub fn protocol(&self) -> u8 {
        if self.is_ipv4() { self.bytes[9] } else { ipv6::upper_layer(&self.bytes).0 }
    }

    /// Length of the packet's IP header, bytes; with IPv6, hop-by-hop options included.
    pub fn header_len(&self) -> usize {
        if self.is_ipv4() { usize::from(self.bytes[0] & 15) * 4 } else { ipv6::upper_layer(&self.bytes).1 }
    }

    fn is_ipv4(&self) -> bool {
        self.bytes[0] >> 4 == 4
    }

    /// Returns true if the packet is a fragment, the first one included.
    fn is_fragment(&self) -> bool {
        self.is_ipv4() && (self.bytes[6] & 0x3f, self.bytes[7]) != (0, 0)
    }

    /// The hash by which routers choose among equally short paths. For fragments it does not include the ports. An
    /// ICMP error has that of the packet that it quotes.
    pub(super) fn route_hash(&self) -> FlowHash {
        let quoted = self.bytes.get(self.header_len() + ICMP_LEN..).filter(|_| self.is_error());
        if let Some(Ok(quoted)) = quoted.map(|bytes| Self::new(bytes.to_vec())) {
            return quoted.error_hash();
        }
        self.route_hash_to(self.destination())
    }

    /// The hash of errors about the packet: that of a packet to the destination of its source route, if it has one.
    pub(super) fn error_hash(&self) -> FlowHash {
        let destination = match (self.source_route(), self.destination()) {
            (Some(route), IpAddr::V4(header)) => route.destination(header).into(),
            (_, header) => header,
        };
        self.route_hash_to(destination)
    }

    /// The hash of the packet with another destination.
    pub(super) fn route_hash_to(&self, destination: IpAddr) -> FlowHash {
        let ports = self.ports().map(|ports| [(ports >> 16) as u16, ports as u16]);
        FlowHash::new([self.source(), destination], self.protocol(), ports)
    }

    /// The source route in the header, if there is one.
    pub(super) fn source_route(&self) -> Option<SourceRoute> {
        SourceRoute::in_packet(&self.bytes)
    }

    /// Changes the packet as a hop of its source route with the address `by` does.
    ///
    /// # Panics
    ///
    /// If the route has no next address.
    pub(super) fn follow_source_route(&mut self, by: Ipv4Addr) {
        let lost = SourceRoute::follow_in(&mut self.bytes, by) as u16;
        if let Some(unfinished) = &mut self.unfinished {
            unfinished.start -= lost;
        }
    }

    /// The connection of the packet; `None` for fragments and transports without ports.
    pub(super) fn flow_key(&self) -> Option<FlowKey> {
        let ports = self.ports()?;
        Some(FlowKey {
            protocol: self.protocol(),
            source: SocketAddr::new(self.source(), (ports >> 16) as u16),
            destination: SocketAddr::new(self.destination(), ports as u16),
        })
    }

    /// The request of network control, if there is a valid one: in a chunk at the start of SCTP, or in an option of IP
    /// with TCP.
    pub(super) fn request(&self) -> Option<NetworkControl> {
        match self.protocol() {
            _ if self.is_fragment() => None,
            protocol::SCTP => self.bytes.get(self.header_len()..).and_then(NetworkControl::requested_in),
            protocol::TCP => NetworkOption::requested_in(&self.bytes),
            _ => None,
        }
    }

    /// Replaces the request, after a router has answered it. An option of IP has no room for records.
    pub(super) fn replace_request(&mut self, request: NetworkControl) {
        if self.protocol() == protocol::SCTP {
            let transport = self.header_len();
            request.replace_in(&mut self.bytes[transport..]);
        } else if request.is_shared {
            NetworkOption::mark_shared(&mut self.bytes);
        }
    }

    /// True if the packet is an ICMP error (RFC 1122 §3.2.2, RFC 4443 §2.1).
    fn is_error(&self) -> bool {
        let kind = self.bytes.get(self.header_len()).copied();
        match self.protocol() {
            protocol::ICMP => kind.is_some_and(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12)),
            protocol::ICMPV6 => kind.is_some_and(|kind| kind < 128),
            _ => false,
        }
    }

    /// True if the packet is a fragment that does not begin with a transport header.
    fn is_later_fragment(&self) -> bool {
        self.is_ipv4() && (self.bytes[6] & 0x1f, self.bytes[7]) != (0, 0)
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

    /// The ports behind the header as one number, if the transport has ports.
    pub(super) fn ports(&self) -> Option<u32> {
        let has_ports = matches!(self.protocol(), protocol::TCP | protocol::UDP | protocol::SCTP);
        let transport = self.bytes.get(self.header_len()..)?;
        let ports = transport.first_chunk().filter(|_| has_ports && !self.is_fragment())?;
        Some(u32::from_be_bytes(*ports))
    }
}

/// Length of an ICMP header, bytes.
const ICMP_LEN: usize = 8;

/// Length of a UDP header, bytes.
const UDP_LEN: usize = 8;

/// Length of SCTP's common header, bytes.
const SCTP_LEN: usize = 12;

/// True if a UDP header has the port of encapsulated SCTP (RFC 6951 §3).
fn is_encapsulation(header: [u8; UDP_LEN]) -> bool {
    let port = sctp::UDP_PORT.to_be_bytes();
    header[..2] == port || header[2..4] == port
}

/// True if an SCTP packet has a DATA or I-DATA chunk.
fn has_data_chunk(packet: &[u8]) -> bool {
    let mut chunks = packet.get(SCTP_LEN..).unwrap_or_default();
    while let Some(&[kind, _, high, low]) = chunks.first_chunk() {
        if matches!(kind, sctp::kind::DATA | sctp::kind::I_DATA) {
            return true;
        }
        let length = usize::from(u16::from_be_bytes([high, low])).next_multiple_of(4);
        chunks = chunks.get(length.max(4)..).unwrap_or_default();
    }
    false
}

impl Frame for RawPacket {
    fn wire_len(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// IPv4 without the flag "don't fragment" (RFC 791 §3.1).
    fn may_fragment(&self) -> bool {
        self.is_ipv4() && self.bytes[6] & 0x40 == 0
    }

    fn has_data(&self) -> bool {
        let transport = self.bytes.get(self.header_len()..).unwrap_or_default();
        if self.is_later_fragment() {
            return !transport.is_empty();
        }
        match self.protocol() {
            protocol::TCP => {
                transport.get(12).is_some_and(|octet| transport.len() > usize::from(octet >> 4) * 4)
            }
            protocol::UDP => match transport.first_chunk::<UDP_LEN>() {
                Some(&header) if is_encapsulation(header) => has_data_chunk(&transport[UDP_LEN..]),
                _ => transport.len() > UDP_LEN,
            },
            protocol::SCTP => has_data_chunk(transport),
            _ => false,
        }
    }

    fn ecn_capable(&self) -> bool {
        self.ecn() != Ecn::NotEct
    }

    /// Sets both ECN bits: in the second octet of an IPv4 header, whose checksum is updated, or in the traffic
    /// class of an IPv6 header (RFC 3168 §5, RFC 8200 §7).
    fn mark(&mut self) {
        if !self.is_ipv4() {
            self.bytes[1] |= 0x30;
            return;
        }
        self.bytes[1] |= Ecn::Ce as u8;
        ipv4::set_checksum(&mut self.bytes);
    }

    /// A hash of addresses, protocol and ports. For fragments it does not include the ports, so that all
    /// fragments of a packet have the same hash.
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
    use anabranch_wire::{Body, Packet, Payload, tcp};

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
    fn marking_keeps_checksums_correct() {
        for ipv6 in [false, true] {
            let mut packet = RawPacket::new(bytes(ipv6, 7, Ecn::Ect0)).unwrap();
            assert!(packet.ecn_capable());
            packet.mark();
            let parsed = Packet::parse(packet.bytes()).expect("the checksums are correct");
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
    fn invalid_packets_are_refused() {
        let whole = bytes(false, 7, Ecn::NotEct);
        for len in 0..20 {
            assert_eq!(RawPacket::new(whole[..len].to_vec()), Err(whole[..len].to_vec()));
        }
        let mut options = whole[..24].to_vec();
        options[0] = 0x4f;
        assert!(RawPacket::new(options).is_err(), "the options are missing");
        assert!(RawPacket::new(vec![0x50; 60]).is_err(), "unknown version of IP");
        assert!(RawPacket::new(bytes(true, 7, Ecn::NotEct)[..39].to_vec()).is_err());
    }

    #[test]
    fn only_ipv4_without_df_may_be_fragmented() {
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
