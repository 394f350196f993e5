//! The header by which a kernel and a program at a TUN interface exchange long packets: it describes how a packet is to be
//! cut into segments, and a checksum that is unfinished because no wire could damage the packet.
//!
//! The header is `struct virtio_net_hdr` (`linux/virtio_net.h`, Virtual I/O Device Version 1.2 §5.1.6).

use anabranch_wire::ip::{ipv4, protocol};
use anabranch_wire::{Checksum, Packet, ParseError};

/// The longest IP packet, bytes.
pub const MAX_PACKET_BYTES: usize = 65_535;

/// The longest output of a kernel, bytes: the offload header, and an IPv6 packet whose header is not counted in its length.
pub const MAX_OUTPUT_BYTES: usize = OffloadHeader::LEN + 40 + MAX_PACKET_BYTES;

/// Offset of the checksum in a header of TCP.
pub const TCP_CHECKSUM: u16 = 16;
/// Offset of the checksum in the common header of SCTP.
pub const SCTP_CHECKSUM: u16 = 8;
/// Offset of the checksum in a header of UDP.
pub const UDP_CHECKSUM: u16 = 6;

/// Flag: a checksum is unfinished (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_NONE`, `_TCPV4`, `_TCPV6` and `_UDP_L4`.
const UNSEGMENTED: u8 = 0;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
/// Bit beside the kind: the first segment may be marked with CWR (`VIRTIO_NET_HDR_GSO_ECN`).
const ECN: u8 = 0x80;

/// A transport checksum that contains only the sum over addresses, protocol and length. The receiver of the packet
/// may finish it. It may also accept the packet without it, because emulated links do not damage packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Offset of the data that it covers.
    pub start: u16,
    /// Offset of the checksum from `start`.
    pub offset: u16,
}

impl Unfinished {
    /// Offset of the checksum in the packet.
    pub fn checksum_at(self) -> usize {
        usize::from(self.start) + usize::from(self.offset)
    }
}

/// The segments of a long packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Length of the headers of IP and transport, bytes.
    pub header: u16,
    /// Payload of each segment but the last, bytes.
    pub payload: u16,
}

/// The header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadHeader {
    /// The unfinished checksum.
    pub unfinished: Option<Unfinished>,
    /// How the packet is to be cut.
    pub segments: Option<Segments>,
}

impl OffloadHeader {
    /// Length of the header, bytes.
    pub const LEN: usize = 10;

    /// Reads the header. A kind of segments that this program has not asked for counts as none.
    pub fn parse(bytes: [u8; Self::LEN]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let unfinished = Unfinished { start: word(6), offset: word(8) };
        let segments = Segments { header: word(2), payload: word(4) };
        let is_known = matches!(bytes[1] & !ECN, TCP_V4 | TCP_V6 | UDP);
        Self {
            unfinished: (bytes[0] & NEEDS_CHECKSUM != 0).then_some(unfinished),
            segments: (is_known && segments.payload > 0).then_some(segments),
        }
    }

    /// The header's bytes for a packet of this version of IP, which carries TCP if it has segments.
    pub fn emit(self, version: u8) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        if let Some(Segments { header, payload }) = self.segments {
            bytes[1] = if version == 4 { TCP_V4 } else { TCP_V6 };
            bytes[2..4].copy_from_slice(&header.to_ne_bytes());
            bytes[4..6].copy_from_slice(&payload.to_ne_bytes());
        } else {
            bytes[1] = UNSEGMENTED;
        }
        if let Some(Unfinished { start, offset }) = self.unfinished {
            bytes[0] = NEEDS_CHECKSUM;
            bytes[6..8].copy_from_slice(&start.to_ne_bytes());
            bytes[8..].copy_from_slice(&offset.to_ne_bytes());
        }
        bytes
    }
}

/// Reads the packet behind an offload header; `None` if its checksum is unfinished and of UDP. The payload's offset is
/// the index of its bytes in `output`.
pub fn parse_output(output: &[u8]) -> Option<Result<Packet, ParseError>> {
    let unfinished = output.first_chunk().and_then(|bytes| OffloadHeader::parse(*bytes).unfinished);
    let packet = output.get(OffloadHeader::LEN..).unwrap_or_default();
    let parsed = match unfinished {
        None => Packet::parse(packet),
        Some(Unfinished { offset: TCP_CHECKSUM | SCTP_CHECKSUM, .. }) => Packet::parse_offloaded(packet),
        Some(_) => return None,
    };
    Some(parsed.map(|mut packet| {
        packet.for_each_payload(|payload| payload.offset += OffloadHeader::LEN as u64);
        packet
    }))
}

/// Sets the lengths in the IP header and the unfinished checksum of a packet.
pub fn finish_lengths(packet: &mut [u8], unfinished: Unfinished) {
    let at = usize::from(unfinished.start);
    let total = packet.len();
    let addresses = if packet[0] >> 4 == 4 {
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        ipv4::set_checksum(packet);
        12..20
    } else {
        packet[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
        8..40
    };
    let carried = if unfinished.offset == TCP_CHECKSUM { protocol::TCP } else { protocol::UDP };
    let [high, low] = ((total - at) as u16).to_be_bytes();
    let pseudo = Checksum::new().bytes(&packet[addresses]).bytes(&[0, carried, high, low]);
    let field = unfinished.checksum_at();
    // The field contains the sum, not its complement; the kernel adds the rest.
    packet[field..field + 2].copy_from_slice(&(!pseudo.finish()).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_read_as_written() {
        let unfinished = Some(Unfinished { start: 20, offset: TCP_CHECKSUM });
        let segments = Some(Segments { header: 52, payload: 1448 });
        for (unfinished, segments) in [(None, None), (unfinished, None), (unfinished, segments)] {
            for version in [4, 6] {
                let header = OffloadHeader { unfinished, segments };
                assert_eq!(OffloadHeader::parse(header.emit(version)), header);
            }
        }
    }

    #[test]
    fn header_of_a_kernel_is_read() {
        // A segmented packet of TCP over IPv6 with CWR: headers of 72 bytes, segments of 1,428, checksum from byte 40 on.
        let mut bytes = [1, 0x84, 0, 0, 0, 0, 0, 0, 0, 0];
        for (at, word) in [(2, 72_u16), (4, 1428), (6, 40), (8, 16)] {
            bytes[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        let header = OffloadHeader {
            unfinished: Some(Unfinished { start: 40, offset: 16 }),
            segments: Some(Segments { header: 72, payload: 1428 }),
        };
        assert_eq!(OffloadHeader::parse(bytes), header);
        bytes[1] = 3; // fragments of UDP
        assert_eq!(OffloadHeader::parse(bytes).segments, None);
    }
}
