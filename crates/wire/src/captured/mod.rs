//! Packets of captures: a capture may have cut their end, a network card may not have computed their checksums yet,
//! and they may be larger than a link's packets.
//!
//! [`Packet::parse`] accepts exactly the packets that a host would accept. A capture contains others:
//!
//! - `tcpdump -s` keeps the first bytes of each packet.
//! - A sender's capture shows packets before the network card has written their checksums.
//! - With segmentation offload, packets have up to 64 KiB, or a length of zero.
//!
//! [`parse`] reads all of these.

use crate::bytes::Reader;
use crate::error::{Header, ParseError, Problem};
use crate::ip::protocol;
use crate::ip::source_route::SourceRoute;
use crate::sctp::{self, UDP_PORT, encapsulation};
use crate::{Body, Ecn, Packet, Payload, tcp, udp};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv6 extension headers that are skipped (RFC 8200 §4): hop-by-hop options, routing and destination options. A
/// fragment is an error.
const SKIPPED_EXTENSIONS: [u8; 3] = [0, 43, 60];
/// Protocol number of the IPv6 fragment header.
const FRAGMENT: u8 = 44;
const MAX_EXTENSIONS: usize = 8;

/// A packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The packet. Payloads have their length on the wire, although the capture may lack their bytes. The destination is
    /// that of a source route, if there is one.
    pub packet: Packet,
    /// True if headers are missing because the capture has cut them: options of TCP, or chunks of SCTP.
    pub is_cut: bool,
    /// Identification of the IPv4 header; 0 for IPv6. All copies of a packet have the same identification.
    pub identification: u16,
    /// Bytes of the IP packet on the wire.
    pub len: u32,
}

/// The IP header, and the captured bytes of the transport.
struct Network<'a> {
    addresses: (IpAddr, IpAddr),
    ecn: Ecn,
    protocol: u8,
    identification: u16,
    /// Bytes of the IP packet on the wire.
    len: u32,
    /// Bytes behind the IP headers on the wire.
    body_len: u32,
    body: &'a [u8],
}

/// Reads an IP packet of `original_len` bytes, of which `bytes` were captured. Checksums are not verified. SCTP over UDP
/// (RFC 6951) is recognised by its port.
///
/// # Errors
///
/// The problem and its byte: a fixed header that is cut, an impossible length, a fragment, or a transport other than TCP,
/// UDP and SCTP.
pub fn parse(bytes: &[u8], original_len: u32) -> Result<Captured, ParseError> {
    let network = match bytes.first().map(|first| first >> 4) {
        Some(4) => parse_ipv4(bytes, original_len)?,
        Some(6) => parse_ipv6(bytes, original_len)?,
        Some(version) => return Err(ParseError::new(Header::Ip, 0, Problem::Version(version))),
        None => return Err(ParseError::new(Header::Ip, 0, Problem::Truncated { needed: 1, available: 0 })),
    };
    let at = bytes.len() - network.body.len();
    let (body, is_cut) = parse_body(&network).map_err(|error| error.shifted(at))?;
    let (source, destination) = network.addresses;
    let packet = Packet { source, destination, ecn: network.ecn, body };
    Ok(Captured { packet, is_cut, identification: network.identification, len: network.len })
}

/// The length of an IP packet: the length in its header, or the captured length if segmentation offload has
/// written zero.
fn length(told: u32, original_len: u32) -> u32 {
    if told == 0 { original_len } else { told }
}

fn parse_ipv4(bytes: &[u8], original_len: u32) -> Result<Network<'_>, ParseError> {
    let error = |at, problem| Err(ParseError::new(Header::Ipv4, at, problem));
    let fixed: [u8; 20] = Reader::new(Header::Ipv4, bytes).array()?;
    let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let octets = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
    let header_len = usize::from(fixed[0] & 0x0f) * 4;
    let len = length(word(2).into(), original_len);
    if header_len < 20 {
        return error(0, Problem::Length(header_len));
    }
    let Some(body_len) = len.checked_sub(header_len as u32) else {
        return error(2, Problem::Length(len as usize));
    };
    // The packet is a fragment: the flag "more fragments" is set, or the offset is not zero.
    if word(6) & 0x3fff != 0 {
        return error(6, Problem::Fragment);
    }
    // On each link of a source route the header has another destination.
    let destination = SourceRoute::last_destination(bytes, octets(16));
    Ok(Network {
        addresses: (octets(12).into(), destination.into()),
        ecn: Ecn::from_bits(fixed[1]),
        protocol: fixed[9],
        identification: word(4),
        len,
        body_len,
        body: captured(bytes, header_len, len),
    })
}

fn parse_ipv6(bytes: &[u8], original_len: u32) -> Result<Network<'_>, ParseError> {
    let mut reader = Reader::new(Header::Ipv6, bytes);
    let first = reader.u32()?;
    let payload_len = u32::from(reader.u16()?);
    let [mut protocol, _hop_limit] = reader.array()?;
    let addresses = (
        IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?)),
        IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?)),
    );
    let len = if payload_len == 0 { original_len } else { 40 + payload_len };
    let mut at = 40;
    for _ in 0..MAX_EXTENSIONS {
        if protocol == FRAGMENT {
            return Err(ParseError::new(Header::Ipv6, at, Problem::Fragment));
        }
        if !SKIPPED_EXTENSIONS.contains(&protocol) {
            break;
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let [next, words] =
            Reader::new(Header::Ipv6, rest).array().map_err(|error: ParseError| error.shifted(at))?;
        protocol = next;
        at += 8 + 8 * usize::from(words);
    }
    let Some(body_len) = len.checked_sub(at as u32) else {
        return Err(ParseError::new(Header::Ipv6, 4, Problem::Length(len as usize)));
    };
    let body = captured(bytes, at, len);
    let ecn = Ecn::from_bits((first >> 20) as u8);
    Ok(Network { addresses, ecn, protocol, identification: 0, len, body_len, body })
}

/// The captured bytes behind the IP header, without padding of the link.
fn captured(bytes: &[u8], header_len: usize, len: u32) -> &[u8] {
    bytes.get(header_len..bytes.len().min(len as usize)).unwrap_or_default()
}

/// Reads the transport's header; true if a part of it is missing.
fn parse_body(network: &Network<'_>) -> Result<(Body, bool), ParseError> {
    let (bytes, len) = (network.body, network.body_len);
    match network.protocol {
        protocol::TCP => {
            tcp::Segment::parse_captured(bytes, len).map(|(segment, is_cut)| (Body::Tcp(segment), is_cut))
        }
        protocol::SCTP => {
            sctp::Packet::parse_captured(bytes, len).map(|(packet, is_cut)| (Body::Sctp(packet), is_cut))
        }
        protocol::UDP => parse_udp(bytes, len),
        other => Err(ParseError::new(Header::Ip, 0, Problem::Protocol(other))),
    }
}

/// Reads a datagram, or the SCTP packet in it.
fn parse_udp(bytes: &[u8], len: u32) -> Result<(Body, bool), ParseError> {
    const HEADER_LEN: usize = 8;
    let mut reader = Reader::new(Header::Udp, bytes);
    let (source, destination) = (reader.u16()?, reader.u16()?);
    let _length_and_checksum = reader.u32()?;
    let len = len.saturating_sub(HEADER_LEN as u32);
    if source == UDP_PORT || destination == UDP_PORT {
        let (packet, is_cut) = sctp::Packet::parse_captured(&bytes[HEADER_LEN..], len)
            .map_err(|error| error.shifted(HEADER_LEN))?;
        let ports = encapsulation::Ports { source, destination };
        return Ok((Body::Sctp(sctp::Packet { udp: Some(ports), ..packet }), is_cut));
    }
    let payload = Payload::new(HEADER_LEN as u64, len);
    Ok((Body::Udp(udp::Datagram { source_port: source, destination_port: destination, payload }), false))
}

#[cfg(test)]
mod tests;
