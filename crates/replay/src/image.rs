//! Packets with their payload bytes replaced.

use anabranch_wire::sctp::{self, encapsulation};
use anabranch_wire::{Body, Packet};

/// A packet as bytes, usually with zeros instead of its payload and checksums to match. So two packets that differ only in
/// their payload bytes have equal images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The packet is SCTP in UDP (RFC 6951).
    pub encapsulated: bool,
    /// The IP packet.
    pub bytes: Vec<u8>,
    /// The offset of each payload in the sender's stream.
    pub offsets: Vec<u64>,
}

impl Image {
    /// The image of a packet to send.
    pub fn of(packet: &Packet) -> Self {
        let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
        packet.emit_with(&mut bytes, |payload, out| {
            offsets.push(payload.offset);
            out.fill(0);
        });
        Self { encapsulated: is_encapsulated(packet), bytes, offsets }
    }

    /// The packet. The offset of a payload is the index of its bytes in the image. `None` if the bytes do not parse.
    pub fn parse(&self) -> Option<Packet> {
        if !self.encapsulated {
            return Packet::parse(&self.bytes).ok();
        }
        // The destination port of UDP, behind an IP header without options.
        let header = if self.bytes.first()? >> 4 == 6 { 40 } else { 20 };
        let port = u16::from_be_bytes(self.bytes.get(header + 2..header + 4)?.try_into().ok()?);
        encapsulation::parse(&self.bytes, port).ok()
    }
}

/// Whether a packet is SCTP in UDP.
pub const fn is_encapsulated(packet: &Packet) -> bool {
    matches!(packet.body, Body::Sctp(sctp::Packet { udp: Some(_), .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::{Ecn, Payload, tcp, udp};

    fn packet(body: Body) -> Packet {
        Packet { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), ecn: Ecn::Ect0, body }
    }

    #[test]
    fn image_has_zeros_and_offsets_of_payloads() {
        let segment = tcp::Segment { payload: Payload::new(70_000, 9), ..tcp::Segment::default() };
        let image = Image::of(&packet(Body::Tcp(segment)));
        assert_eq!(
            (image.bytes.len(), &image.bytes[40..], &image.offsets[..]),
            (49, &[0; 9][..], &[70_000][..])
        );
        let Some(Packet { body: Body::Tcp(parsed), .. }) = image.parse() else { panic!("{image:?}") };
        assert_eq!(parsed.payload, Payload::new(40, 9));
    }

    #[test]
    fn sctp_in_udp_is_parsed_again() {
        let ports = encapsulation::Ports { source: 1, destination: 2 };
        let body = sctp::Packet {
            source_port: 3,
            destination_port: 4,
            verification_tag: 5,
            chunks: sctp::Chunk::CookieAck.into(),
            udp: Some(ports),
            may_fragment: false,
            zero_checksum: false,
        };
        let packet = packet(Body::Sctp(body));
        assert_eq!(Image::of(&packet).parse().as_ref(), Some(&packet));
        let datagram = Body::Udp(udp::Datagram::default());
        assert!(!is_encapsulated(&Packet { body: datagram, ..packet }));
    }
}
