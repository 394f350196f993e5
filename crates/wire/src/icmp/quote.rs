//! The part of a packet that an ICMP error quotes.

use crate::ip::source_route::SourceRoute;
use crate::ip::{Addresses, ipv4, ipv6, protocol};
use crate::packet::{Body, Packet};
use crate::sctp::{self, Chunk};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Number of bytes of the transport header that every error quotes: ports, and TCP's sequence number or SCTP's
/// verification tag (RFC 792).
const TRANSPORT_LEN: usize = 8;

/// The first bytes of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quote(Vec<u8>);

/// Fields of the quoted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port. A packet with a source route has the destination of that route.
    pub destination: SocketAddr,
    /// IP protocol number of the quoted packet, see [`protocol`].
    pub protocol: u8,
    /// TCP's sequence number or SCTP's verification tag; of UDP, length and checksum.
    pub number: u32,
    /// The initiate tag of an SCTP packet with INIT, whose verification tag is zero (RFC 9260 §10, ICMP6);
    /// `None` if the quote ends before it.
    pub initiate_tag: Option<u32>,
}

impl Quote {
    /// The IP header of a packet and the first eight bytes of its transport header (RFC 1122 §3.2.2 requires no
    /// more). For SCTP in UDP the quote has sixteen bytes, so that it includes SCTP's own ports and tag; for an INIT
    /// it has twelve more, up to the initiate tag. RFC 4443 §3 requires as much of the packet as fits, but this
    /// crate's packets have no payload bytes to quote. For the same reason the checksums of quoted UDP and SCTP
    /// headers are zero.
    pub fn of(packet: &Packet) -> Self {
        let mut bytes = Vec::with_capacity(ipv6::Header::LEN as usize + 2 * TRANSPORT_LEN);
        packet.emit_ip(&mut bytes);
        let mut word = |high: u16, low: u16| {
            bytes.extend_from_slice(&high.to_be_bytes());
            bytes.extend_from_slice(&low.to_be_bytes());
        };
        match &packet.body {
            Body::Tcp(segment) => {
                word(segment.source_port, segment.destination_port);
                bytes.extend_from_slice(&segment.seq.0.to_be_bytes());
            }
            Body::Udp(datagram) => {
                word(datagram.source_port, datagram.destination_port);
                word(datagram.wire_len() as u16, 0);
            }
            Body::Sctp(sctp) => {
                if let Some(ports) = sctp.udp {
                    word(ports.source, ports.destination);
                    word(packet.body_len() as u16, 0);
                }
                word(sctp.source_port, sctp.destination_port);
                bytes.extend_from_slice(&sctp.verification_tag.to_be_bytes());
                if let Some(chunk @ Chunk::Init(init)) = sctp.chunks.first() {
                    bytes.extend_from_slice(&[0, 0, 0, 0, chunk.kind(), 0]);
                    bytes.extend_from_slice(&(chunk.length() as u16).to_be_bytes());
                    bytes.extend_from_slice(&init.initiate_tag.to_be_bytes());
                }
            }
            Body::Icmp(message) => {
                let start = bytes.len();
                let addresses = Addresses { source: packet.source, destination: packet.destination };
                message.emit(addresses, &mut bytes);
                bytes.truncate(start + TRANSPORT_LEN);
            }
        }
        Self(bytes)
    }

    /// Quotes a packet given as bytes: `header` bytes of IP header and the first eight bytes of its transport
    /// header.
    pub fn of_bytes(packet: &[u8], header: usize) -> Self {
        Self(packet[..packet.len().min(header + TRANSPORT_LEN)].to_vec())
    }

    /// A quote with these bytes, as received from a network.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Parses the quote; `None` if it is too short, a later fragment, or of an unsupported transport. Only
    /// the returned fields are checked: routers change some of the others on the way.
    pub fn parse(&self) -> Option<Quoted> {
        let (addresses, protocol, body) = self.split()?;
        match protocol {
            protocol::TCP | protocol::UDP | protocol::SCTP => Quoted::new(addresses, protocol, body),
            _ => None,
        }
    }

    /// Like [`parse`](Self::parse), for the SCTP packet within a UDP datagram (RFC 6951): SCTP's ports and
    /// tag.
    pub fn parse_encapsulated(&self) -> Option<Quoted> {
        let (addresses, protocol, body) = self.split()?;
        let inner = body.get(TRANSPORT_LEN..)?;
        (protocol == protocol::UDP).then(|| Quoted::new(addresses, protocol::SCTP, inner))?
    }

    /// The quote with another source: address translators rewrite the errors that they forward in this way
    /// (RFC 5508 §4.1). `None` if the quote does not [`parse`](Self::parse), or the address is of the other
    /// family.
    pub fn with_source(&self, source: SocketAddr) -> Option<Self> {
        self.with_address(source, false)
    }

    /// Like [`with_source`](Self::with_source), for the destination.
    pub fn with_destination(&self, destination: SocketAddr) -> Option<Self> {
        self.with_address(destination, true)
    }

    fn with_address(&self, to: SocketAddr, destination: bool) -> Option<Self> {
        let (of_address, of_port) = if destination { (1, 2) } else { (0, 0) };
        self.parse().filter(|quoted| quoted.source.is_ipv4() == to.is_ipv4())?;
        let mut bytes = self.0.clone();
        let transport = match to.ip() {
            IpAddr::V4(address) => {
                bytes[12 + 4 * of_address..][..4].copy_from_slice(&address.octets());
                ipv4::set_checksum(&mut bytes);
                usize::from(bytes[0] & 15).max(5) * 4
            }
            IpAddr::V6(address) => {
                bytes[8 + 16 * of_address..][..16].copy_from_slice(&address.octets());
                ipv6::upper_layer(&bytes).1
            }
        };
        bytes[transport + of_port..][..2].copy_from_slice(&to.port().to_be_bytes());
        Some(Self(bytes))
    }

    fn split(&self) -> Option<(Addresses, u8, &[u8])> {
        let bytes = self.0.as_slice();
        match bytes.first()? >> 4 {
            4 => {
                let header = bytes.first_chunk::<{ ipv4::Header::LEN as usize }>()?;
                let (first, [.., s0, s1, s2, s3, d0, d1, d2, d3]) = (header[0], *header);
                let later_fragment = (header[6] & 0x1f, header[7]) != (0, 0);
                let destination = Ipv4Addr::new(d0, d1, d2, d3);
                let destination = SourceRoute::last_destination(bytes, destination).into();
                let addresses = Addresses { source: [s0, s1, s2, s3].into(), destination };
                let body = bytes.get(usize::from(first & 15).max(5) * 4..)?;
                (!later_fragment).then_some((addresses, header[9], body))
            }
            6 => {
                let header = bytes.first_chunk::<{ ipv6::Header::LEN as usize }>()?;
                let address = |at: usize| <[u8; 16]>::try_from(&header[at..at + 16]).ok();
                let addresses = Addresses { source: address(8)?.into(), destination: address(24)?.into() };
                let (protocol, len) = ipv6::upper_layer(bytes);
                Some((addresses, protocol, &bytes[len..]))
            }
            _ => None,
        }
    }
}

impl Quoted {
    fn new(addresses: Addresses, protocol: u8, transport: &[u8]) -> Option<Self> {
        let &[s0, s1, d0, d1, n0, n1, n2, n3] = transport.first_chunk::<TRANSPORT_LEN>()?;
        Some(Self {
            source: SocketAddr::new(addresses.source, u16::from_be_bytes([s0, s1])),
            destination: SocketAddr::new(addresses.destination, u16::from_be_bytes([d0, d1])),
            protocol,
            number: u32::from_be_bytes([n0, n1, n2, n3]),
            initiate_tag: initiate_tag(protocol, transport),
        })
    }
}

/// The initiate tag of an INIT, which follows the common header and the chunk header.
fn initiate_tag(protocol: u8, transport: &[u8]) -> Option<u32> {
    let init = transport.get(sctp::HEADER_LEN as usize..)?.first_chunk::<8>()?;
    let &[kind, _, _, _, t0, t1, t2, t3] = init;
    (protocol == protocol::SCTP && kind == sctp::kind::INIT).then(|| u32::from_be_bytes([t0, t1, t2, t3]))
}
