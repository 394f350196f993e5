//! Parsing of SCTP in UDP.

use super::Ports;
use crate::content::Buffer;
use crate::error::ParseError;
use crate::packet::{Body, Packet};
use crate::sctp;

/// Reads an IP packet in which UDP from or to `port` carries SCTP. All other packets, plain SCTP included,
/// are read like by [`Packet::parse`].
///
/// # Errors
///
/// Like [`Packet::parse`]. Within an encapsulated packet, offsets in errors count from the SCTP header.
pub fn parse(bytes: &[u8], port: u16) -> Result<Packet, ParseError> {
    let mut parsed = Packet::parse(bytes)?;
    let Body::Udp(datagram) = &parsed.body else { return Ok(parsed) };
    let ports = Ports { source: datagram.source_port, destination: datagram.destination_port };
    if ports.source != port && ports.destination != port {
        return Ok(parsed);
    }
    let start = datagram.payload.offset;
    let mut packet = sctp::Packet::parse(Buffer(bytes).bytes(datagram.payload))?;
    packet.udp = Some(ports);
    // DF of the IPv4 header, bit 6 of byte 6, since the header itself is parsed already.
    packet.may_fragment = bytes[0] >> 4 == 4 && bytes[6] & 0x40 == 0;
    parsed.body = Body::Sctp(packet);
    parsed.for_each_payload(|payload| payload.offset += start);
    Ok(parsed)
}
