//! A packet: network addresses, the ECN field, and a transport body.

use crate::ecn::Ecn;
use crate::error::{EncodeError, Header, ParseError, Problem};
use crate::ip::network_option::check_ipv6;
use crate::ip::option::IpOption;
use crate::ip::{Addresses, ipv4, ipv6, protocol};
use crate::sctp::encapsulation;
use crate::{Content, Payload, icmp, sctp, tcp, udp};
use core::net::IpAddr;
use core::ops::Range;

/// Transport header and payload of an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A TCP segment.
    Tcp(tcp::Segment),
    /// An SCTP packet.
    Sctp(sctp::Packet),
    /// A UDP datagram.
    Udp(udp::Datagram),
    /// An ICMP message, of the packet's family.
    Icmp(Box<icmp::Message>),
}

/// An IP packet as a value. Both addresses are of the same family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// ECN field.
    pub ecn: Ecn,
    /// Transport header and payload.
    pub body: Body,
}

impl Packet {
    /// Exact length of the IP packet in bytes: an IPv4 header of 20 or an IPv6 header of 40 bytes, its option, the
    /// transport header and the payload.
    pub fn wire_len(&self) -> u32 {
        let network = if self.source.is_ipv4() { ipv4::Header::LEN } else { ipv6::Header::LEN };
        network + self.option_len() + self.body_len()
    }

    /// The option in the IP header.
    const fn ip_option(&self) -> Option<&IpOption> {
        match &self.body {
            Body::Tcp(tcp::Segment { ip_option: Some(option), .. }) => Some(option),
            _ => None,
        }
    }

    /// Length of the options in the IP header, bytes.
    fn option_len(&self) -> u32 {
        self.ip_option().map_or(0, |option| option.wire_len(self.source.is_ipv4()))
    }

    /// Length of the transport header and payload, bytes.
    pub(crate) fn body_len(&self) -> u32 {
        match &self.body {
            Body::Tcp(segment) => segment.wire_len(),
            Body::Sctp(packet) => packet.wire_len() + packet.udp.map_or(0, |_| encapsulation::OVERHEAD),
            Body::Udp(datagram) => datagram.wire_len(),
            Body::Icmp(message) => message.wire_len(),
        }
    }

    /// Checks that the packet has an encoding.
    ///
    /// # Errors
    ///
    /// If a field has a value that cannot be encoded: that field.
    pub fn validate(&self) -> Result<(), EncodeError> {
        let longest = match (self.source, self.destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => ipv4::Header::MAX_PAYLOAD,
            (IpAddr::V6(_), IpAddr::V6(_)) => ipv6::Header::MAX_PAYLOAD,
            _ => return Err(EncodeError::MixedFamilies),
        };
        if self.option_len() + self.body_len() > longest {
            return Err(EncodeError::PacketTooLong(self.wire_len()));
        }
        if let Some(option) = self.ip_option() {
            option.validate(self.source.is_ipv4())?;
        }
        match &self.body {
            Body::Tcp(segment) => segment.validate(),
            Body::Icmp(message) => message.validate(self.source.is_ipv4()),
            Body::Sctp(_) | Body::Udp(_) => Ok(()),
        }
    }

    /// Appends the packet with all checksums; payloads have the pattern of [`Payload::fill`]. Appends exactly
    /// [`wire_len`](Self::wire_len) bytes. The IP header is that of [`ipv4::Header::new`] or
    /// [`ipv6::Header::new`].
    ///
    /// # Panics
    ///
    /// If the packet does not [`validate`](Self::validate): a bug in the core that made it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_with(out, |payload, bytes| payload.fill(bytes));
    }

    /// Appends the packet with payload bytes from the caller: `fill` is called with each payload and the
    /// slice for its bytes.
    ///
    /// # Panics
    ///
    /// Like [`emit`](Self::emit).
    pub fn emit_with(&self, out: &mut Vec<u8>, fill: impl FnMut(Payload, &mut [u8])) {
        self.emit_by(out, fill, |packet, out, fill| packet.emit_with(out, fill));
    }

    /// As [`emit_with`](Self::emit_with), but the checksum of SCTP is zero. For [`parse_offloaded`](Self::parse_offloaded)
    /// on the same machine.
    ///
    /// # Panics
    ///
    /// Like [`emit`](Self::emit).
    pub fn emit_unfinished(&self, out: &mut Vec<u8>, fill: impl FnMut(Payload, &mut [u8])) {
        self.emit_by(out, fill, |packet, out, fill| packet.emit_unfinished(out, fill));
    }

    /// Appends the packet; `emit_sctp` appends an SCTP packet that is not carried in UDP.
    fn emit_by(
        &self,
        out: &mut Vec<u8>,
        mut fill: impl FnMut(Payload, &mut [u8]),
        emit_sctp: impl FnOnce(&sctp::Packet, &mut Vec<u8>, &mut dyn FnMut(Payload, &mut [u8])),
    ) {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        self.emit_ip(out);
        let destination =
            self.ip_option().map_or(self.destination, |option| option.destination(self.destination));
        let addresses = Addresses { source: self.source, destination };
        match &self.body {
            Body::Tcp(segment) => segment.emit_with(addresses, out, |bytes| fill(segment.payload, bytes)),
            Body::Sctp(packet) => match packet.udp {
                Some(ports) => encapsulation::emit(packet, (ports, addresses), out, &mut fill),
                None => emit_sctp(packet, out, &mut fill),
            },
            Body::Udp(datagram) => datagram.emit_with(addresses, out, |bytes| fill(datagram.payload, bytes)),
            Body::Icmp(message) => message.emit(addresses, out),
        }
    }

    /// The protocol number of the transport in the IP header.
    fn protocol(&self) -> u8 {
        match self.body {
            Body::Tcp(_) => protocol::TCP,
            Body::Sctp(sctp::Packet { udp: None, .. }) => protocol::SCTP,
            Body::Sctp(_) | Body::Udp(_) => protocol::UDP,
            Body::Icmp(_) if self.source.is_ipv4() => protocol::ICMP,
            Body::Icmp(_) => protocol::ICMPV6,
        }
    }

    /// Appends the IP header alone.
    ///
    /// # Panics
    /// If the addresses are of different families.
    pub(crate) fn emit_ip(&self, out: &mut Vec<u8>) {
        let protocol = self.protocol();
        let len = self.body_len() as u16;
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = ipv4::Header::new(source, destination, protocol, len);
                let mut header = ipv4::Header { ecn: self.ecn, ..header };
                if let Body::Sctp(sctp::Packet { may_fragment: true, chunks, .. }) = &self.body {
                    // Fragments of different packets must differ in their identification (RFC 6864 §4.1).
                    header.identification =
                        chunks.iter().find_map(sctp::Chunk::tsn).unwrap_or_default().0 as u16;
                    header.dont_fragment = false;
                }
                match self.ip_option() {
                    Some(option) => header.emit_with(out, |out| option.emit_ipv4(out)),
                    None => header.emit(out),
                }
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let option = self.ip_option();
                let next = if option.is_some() { ipv6::HOP_BY_HOP } else { protocol };
                let len = len + self.option_len() as u16;
                let header = ipv6::Header::new(source, destination, next, len);
                ipv6::Header { ecn: self.ecn, ..header }.emit(out);
                if let Some(option) = option {
                    option.emit_ipv6(protocol, out);
                }
            }
            _ => panic!("{}", EncodeError::MixedFamilies),
        }
    }

    /// True if routers may split the packet into IP fragments.
    pub const fn may_fragment(&self) -> bool {
        matches!(self.body, Body::Sctp(sctp::Packet { may_fragment: true, .. }))
    }

    /// True if the packet carries data of an application.
    #[inline]
    pub fn has_data(&self) -> bool {
        match &self.body {
            Body::Tcp(segment) => segment.payload.len > 0,
            Body::Udp(datagram) => datagram.payload.len > 0,
            Body::Sctp(packet) => packet.chunks.iter().any(|chunk| chunk.tsn().is_some()),
            Body::Icmp(_) => false,
        }
    }

    /// Allows routers to split the packet into IP fragments, if it is an SCTP packet over IPv4.
    pub fn let_routers_fragment(&mut self) {
        if let (IpAddr::V4(_), Body::Sctp(packet)) = (self.source, &mut self.body) {
            packet.may_fragment = true;
        }
    }

    /// Reads an IP packet and verifies every checksum. Bytes behind the length in the IP header are
    /// link-layer padding and ignored. Fields without a place in a `Packet` (DSCP, hop limit, identification,
    /// IP options other than [`IpOption`] and with other transports than TCP, unknown TCP options) are dropped. No header contains the stream offset of a payload, so
    /// the offset is set to the index of its bytes in `bytes`, where [`Buffer`](crate::Buffer) finds them.
    ///
    /// # Errors
    ///
    /// The problem and its byte: truncated bytes, an impossible length, a wrong checksum, a fragment, an IPv6
    /// extension header other than hop-by-hop options, or a transport other than TCP, UDP, SCTP and ICMP.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Self::parse_by(bytes, tcp::Segment::parse, sctp::Packet::parse)
    }

    /// As [`parse`](Self::parse), but does not verify the checksums of TCP and SCTP. A sender on the same machine leaves them
    /// unfinished, because no wire could damage the packet.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn parse_offloaded(bytes: &[u8]) -> Result<Self, ParseError> {
        let segment = |bytes: &[u8], _| tcp::Segment::parse_unverified(bytes);
        Self::parse_by(bytes, segment, sctp::Packet::parse_unverified)
    }

    fn parse_by(
        bytes: &[u8],
        segment: impl FnOnce(&[u8], Addresses) -> Result<tcp::Segment, ParseError>,
        sctp: impl FnOnce(&[u8]) -> Result<sctp::Packet, ParseError>,
    ) -> Result<Self, ParseError> {
        let network = Network::parse(bytes)?;
        let start = network.body.start;
        let bytes = bytes.get(network.body.clone()).unwrap_or_default();
        let mut packet = network.parse_body(bytes, segment, sctp).map_err(|error| error.shifted(start))?;
        packet.for_each_payload(|payload| payload.offset += start as u64);
        Ok(packet)
    }

    /// Computes every field that depends on payload bytes and that a sender without the bytes could not compute: the
    /// checksum of a Multipath TCP mapping, or the code of SCTP's authentication. Writing a packet does this
    /// too. Code that splits a packet or changes its payload without writing it has to call this first.
    pub fn settle(&mut self, content: &dyn Content) {
        match &mut self.body {
            Body::Tcp(segment) => segment.settle(content),
            Body::Sctp(packet) => packet.settle(content),
            Body::Udp(_) | Body::Icmp(_) => {}
        }
    }

    /// Calls `visit` with every payload, in their order in the packet.
    pub fn for_each_payload(&mut self, mut visit: impl FnMut(&mut Payload)) {
        match &mut self.body {
            Body::Tcp(segment) => visit(&mut segment.payload),
            Body::Udp(datagram) => visit(&mut datagram.payload),
            Body::Sctp(packet) => {
                packet.chunks.iter_mut().filter_map(sctp::Chunk::payload_mut).for_each(visit);
            }
            Body::Icmp(_) => {}
        }
    }
}

/// The fields that IPv4 and IPv6 headers share.
struct Network {
    addresses: Addresses,
    ecn: Ecn,
    /// True for IPv4 without DF.
    may_fragment: bool,
    protocol: u8,
    option: Option<Box<IpOption>>,
    body: Range<usize>,
}

impl Network {
    /// Reads the IP header; an unsupported upper-layer protocol is an error at the field that contains it.
    fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (network, header, protocol_at) = match bytes.first().map(|first| first >> 4) {
            Some(4) => (Self::parse_ipv4(bytes)?, Header::Ipv4, 9),
            Some(6) => (Self::parse_ipv6(bytes)?, Header::Ipv6, 6),
            Some(version) => return Err(ParseError::new(Header::Ip, 0, Problem::Version(version))),
            None => {
                return Err(ParseError::new(Header::Ip, 0, Problem::Truncated { needed: 1, available: 0 }));
            }
        };
        match network.protocol {
            protocol::TCP | protocol::UDP | protocol::SCTP => Ok(network),
            protocol::ICMP if network.addresses.source.is_ipv4() => Ok(network),
            protocol::ICMPV6 if network.addresses.source.is_ipv6() => Ok(network),
            other => Err(ParseError::new(header, protocol_at, Problem::Protocol(other))),
        }
    }

    fn parse_ipv4(bytes: &[u8]) -> Result<Self, ParseError> {
        let (header, len) = ipv4::Header::parse(bytes)?;
        let addresses = Addresses { source: header.source.into(), destination: header.destination.into() };
        let options = &bytes[ipv4::Header::LEN as usize..len];
        Ok(Self {
            addresses,
            ecn: header.ecn,
            may_fragment: !header.dont_fragment,
            protocol: header.protocol,
            option: IpOption::find_ipv4(options).map(Box::new),
            body: len..len + usize::from(header.payload_len),
        })
    }

    fn parse_ipv6(bytes: &[u8]) -> Result<Self, ParseError> {
        let header = ipv6::Header::parse(bytes)?;
        let addresses = Addresses { source: header.source.into(), destination: header.destination.into() };
        let fixed = ipv6::Header::LEN as usize;
        let end = fixed + usize::from(header.payload_len);
        // A header of hop-by-hop options that is not whole leaves its own type, which is no transport.
        let (protocol, start) = ipv6::upper_layer(&bytes[..end]);
        let option = if start > fixed {
            let options_at = fixed + 2;
            let options = &bytes[options_at..start];
            check_ipv6(options, options_at)?;
            IpOption::find_ipv6(options).map(Box::new)
        } else {
            None
        };
        Ok(Self { addresses, ecn: header.ecn, may_fragment: false, protocol, option, body: start..end })
    }

    /// Reads the bytes behind the IP header, those of TCP by `segment`, those of SCTP by `sctp`.
    fn parse_body(
        self,
        bytes: &[u8],
        segment: impl FnOnce(&[u8], Addresses) -> Result<tcp::Segment, ParseError>,
        sctp: impl FnOnce(&[u8]) -> Result<sctp::Packet, ParseError>,
    ) -> Result<Packet, ParseError> {
        let destination = self.addresses.destination;
        let covered = self.option.as_ref().map_or(destination, |option| option.destination(destination));
        let covered = Addresses { destination: covered, ..self.addresses };
        let body = match self.protocol {
            protocol::TCP => Body::Tcp(tcp::Segment { ip_option: self.option, ..segment(bytes, covered)? }),
            protocol::UDP => Body::Udp(udp::Datagram::parse(bytes, covered)?),
            protocol::ICMP | protocol::ICMPV6 => Body::Icmp(Box::new(icmp::Message::parse(bytes, covered)?)),
            _ => Body::Sctp(sctp::Packet { may_fragment: self.may_fragment, ..sctp(bytes)? }),
        };
        let Addresses { source, destination } = self.addresses;
        Ok(Packet { source, destination, ecn: self.ecn, body })
    }
}
