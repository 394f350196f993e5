//! SCTP over UDP (RFC 6951): the whole SCTP packet is the payload of a UDP datagram.
//!
//! ```text
//! +-----------------------------+
//! |      IPv4 or IPv6 header    |
//! +-----------------------------+
//! |         UDP header          |
//! +-----------------------------+
//! |     SCTP common header      |
//! :           chunks            :
//! +-----------------------------+
//! ```
//!
//! The packet as a value stays the same; only its bytes differ. It is [`OVERHEAD`] bytes longer than its `wire_len()`.

use super::UDP_PORT;
use crate::error::ParseError;
use crate::packet::{Body, Packet, Parsed};
use crate::payload::Payload;
use crate::udp::Datagram;

/// What the encapsulation adds to a packet, bytes.
pub const OVERHEAD: u32 = Datagram::HEADER_LEN;

/// The UDP ports around an SCTP packet. They have nothing to do with SCTP's own; a translator on the way may change
/// them, so that answers go to the source port last seen (RFC 6951 §5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self { source: UDP_PORT, destination: UDP_PORT }
    }
}

/// Appends an IP packet that carries SCTP, the latter in UDP; payloads are the pattern of their stream offsets.
///
/// # Panics
///
/// If the packet does not carry SCTP, or is too long for IP or UDP.
pub fn emit(packet: &Packet, ports: Ports, out: &mut Vec<u8>) {
    emit_with(packet, ports, out, &mut |payload, bytes| payload.fill(bytes));
}

/// Like [`emit`], with payload bytes from `fill`, as [`super::Packet::emit_with`] describes it.
///
/// # Panics
///
/// Like [`emit`].
pub fn emit_with(packet: &Packet, ports: Ports, out: &mut Vec<u8>, fill: &mut dyn FnMut(Payload, &mut [u8])) {
    let Body::Sctp(sctp) = &packet.body else { panic!("only SCTP goes into its encapsulation") };
    let mut inner = Vec::new();
    sctp.emit_with(&mut inner, fill);
    let datagram = Datagram {
        source_port: ports.source,
        destination_port: ports.destination,
        payload: Payload::new(0, inner.len() as u32),
    };
    let Packet { source, destination, ecn, .. } = *packet;
    let outer = Packet { source, destination, ecn, body: Body::Udp(datagram) };
    outer.emit_with(out, |_, bytes| bytes.copy_from_slice(&inner));
}

/// Reads an IP packet in which UDP from or to `port` carries SCTP, and then answers that packet and the ports around
/// it. Any other packet is read as [`Packet::parse`] does, plain SCTP too.
///
/// # Errors
///
/// As [`Packet::parse`]. An error within an encapsulated packet counts bytes from the SCTP header on.
pub fn parse(bytes: &[u8], port: u16) -> Result<(Parsed<'_>, Option<Ports>), ParseError> {
    let mut parsed = Packet::parse(bytes)?;
    let Body::Udp(datagram) = &parsed.packet.body else { return Ok((parsed, None)) };
    let ports = Ports { source: datagram.source_port, destination: datagram.destination_port };
    if ports.source != port && ports.destination != port {
        return Ok((parsed, None));
    }
    let (packet, payloads) = super::Packet::parse(parsed.payload)?;
    parsed.packet.body = Body::Sctp(packet);
    parsed.payload = &[];
    parsed.chunk_payloads = payloads;
    Ok((parsed, Some(ports)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use crate::sctp::{self, Chunk, Data};
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    fn packet(source: IpAddr, destination: IpAddr) -> Packet {
        let data = Data { payload: Payload::new(5, 10), ..Data::default() };
        let sctp = sctp::Packet {
            source_port: 1,
            destination_port: 2,
            verification_tag: 3,
            chunks: vec![Chunk::Data(data)],
        };
        Packet { source, destination, ecn: Ecn::Ect0, body: Body::Sctp(sctp) }
    }

    #[test]
    fn what_goes_in_comes_out() {
        let ports = Ports { source: 40_000, destination: UDP_PORT };
        let v4 = packet(Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into());
        let v6 = packet(Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into());
        for packet in [v4, v6] {
            let mut bytes = Vec::new();
            emit(&packet, ports, &mut bytes);
            assert_eq!(bytes.len() as u32, packet.wire_len() + OVERHEAD);
            let (mut parsed, found) = parse(&bytes, UDP_PORT).unwrap();
            assert_eq!(found, Some(ports));
            assert_eq!(Payload::new(5, 10).first_difference(parsed.chunk_payloads[0]), None);
            let Body::Sctp(sctp) = &mut parsed.packet.body else { panic!("SCTP") };
            sctp.chunks[0].payload_mut().unwrap().offset = 5;
            assert_eq!(parsed.packet, packet);
            // The answer's direction, and a port that is not ours.
            assert_eq!(parse(&bytes, 40_000).unwrap().1, Some(ports));
            assert!(matches!(
                parse(&bytes, 4_000).unwrap(),
                (Parsed { packet: Packet { body: Body::Udp(_), .. }, .. }, None)
            ));
        }
    }

    #[test]
    fn plain_packets_pass() {
        let packet = packet(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into());
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        let (parsed, ports) = parse(&bytes, UDP_PORT).unwrap();
        assert!(matches!(parsed.packet.body, Body::Sctp(_)));
        assert_eq!(ports, None);
    }

    #[test]
    fn a_bad_inner_checksum_is_seen() {
        let packet = packet(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into());
        let Body::Sctp(sctp) = &packet.body else { panic!("SCTP") };
        let mut inner = Vec::new();
        sctp.emit(&mut inner);
        inner[20] ^= 1;
        let datagram = Datagram {
            source_port: UDP_PORT,
            destination_port: 7,
            payload: Payload::new(0, inner.len() as u32),
        };
        let outer = Packet { body: Body::Udp(datagram), ..packet };
        let mut bytes = Vec::new();
        outer.emit_with(&mut bytes, |_, bytes| bytes.copy_from_slice(&inner));
        assert!(parse(&bytes, UDP_PORT).is_err());
    }
}
