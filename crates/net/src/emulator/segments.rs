//! Segmentation offload to and from a host's kernel: the kernel passes the output of TCP or UDP as one long
//! packet with a header that describes the segmentation, and accepts consecutive packets of one connection in
//! the same form. The packets that result here are those that a network card would put on the wire, except
//! for checksums, since no wire damages them: they contain the sum over addresses and lengths, and the
//! receiving kernel is informed.

use super::packet::RawPacket;
use crate::offload::{
    MAX_PACKET_BYTES, OffloadHeader, Segments, TCP_CHECKSUM, UDP_CHECKSUM, Unfinished, finish_lengths,
};
use anabranch_wire::ip::ipv6;

/// Maximum number of packets in a train.
const MAX_TRAIN_PACKETS: usize = 64;

/// A flag of TCP (RFC 9293 §3.1) that only the first segment of a train keeps.
const CWR: u8 = 0x80;
/// The flags that only its last segment keeps.
const FIN_PSH: u8 = 0x09;
/// The only flags with which a segment may be merged with others.
const ACK_PSH: u8 = 0x18;
const PSH: u8 = 0x08;

/// Splits the output of a kernel, which begins with the header, into packets. Invalid output is dropped.
pub fn split_output(output: &[u8], mut buffer: impl FnMut() -> Vec<u8>, mut packet: impl FnMut(RawPacket)) {
    let Some((header, bytes)) = output.split_first_chunk::<{ OffloadHeader::LEN }>() else { return };
    let OffloadHeader { unfinished, segments } = OffloadHeader::parse(*header);
    let mut emit = |bytes: Vec<u8>| {
        // Data that is not an IP packet is dropped.
        let Ok(made) = RawPacket::new(bytes) else { return };
        packet(match unfinished {
            Some(unfinished) if unfinished.checksum_at() + 2 <= made.bytes().len() => {
                made.with_unfinished(unfinished)
            }
            _ => made,
        });
    };
    let cut = segments.zip(unfinished).and_then(|(Segments { payload, .. }, unfinished)| {
        Some((header_len(bytes, unfinished)?, usize::from(payload), unfinished))
    });
    let Some((header, segment, unfinished)) = cut else {
        let mut whole = buffer();
        whole.extend_from_slice(bytes);
        return emit(whole);
    };
    let (head, payload) = bytes.split_at(header);
    let last = payload.len().div_ceil(segment).saturating_sub(1);
    for (number, part) in payload.chunks(segment).enumerate() {
        let mut made = buffer();
        made.extend_from_slice(head);
        made.extend_from_slice(part);
        number_segment(&mut made, unfinished, number, number * segment);
        if unfinished.offset == TCP_CHECKSUM {
            let flags = &mut made[usize::from(unfinished.start) + 13];
            *flags &= !(if number > 0 { CWR } else { 0 } | if number < last { FIN_PSH } else { 0 });
        }
        emit(made);
    }
}

/// The length of the headers of IP and transport; `None` if they are incomplete, or if the packet has no IP header.
fn header_len(bytes: &[u8], Unfinished { start, offset }: Unfinished) -> Option<usize> {
    let ip_len = match bytes.first()? >> 4 {
        4 => usize::from(bytes[0] & 15) * 4,
        6 => ipv6::Header::LEN as usize,
        _ => return None,
    };
    let start = usize::from(start);
    let transport = bytes.get(start..)?;
    let len = match offset {
        TCP_CHECKSUM => usize::from(transport.get(12)? >> 4) * 4,
        UDP_CHECKSUM => 8,
        _ => return None,
    };
    let least = if offset == TCP_CHECKSUM { 20 } else { 8 };
    (start >= ip_len.max(20) && len >= least && bytes.len() > start + len).then_some(start + len)
}

/// Completes a segment with the original headers: sets its lengths, identification, sequence number
/// and unfinished checksum.
fn number_segment(packet: &mut [u8], unfinished: Unfinished, number: usize, skipped: usize) {
    let at = usize::from(unfinished.start);
    if packet[0] >> 4 == 4 {
        let before = u16::from_be_bytes([packet[4], packet[5]]);
        packet[4..6].copy_from_slice(&before.wrapping_add(number as u16).to_be_bytes());
    }
    let len = (packet.len() - at) as u16;
    if unfinished.offset == TCP_CHECKSUM {
        let first = u32::from_be_bytes([packet[at + 4], packet[at + 5], packet[at + 6], packet[at + 7]]);
        packet[at + 4..at + 8].copy_from_slice(&first.wrapping_add(skipped as u32).to_be_bytes());
    } else {
        packet[at + 4..at + 6].copy_from_slice(&len.to_be_bytes());
    }
    finish_lengths(packet, unfinished);
}

/// Packets for a host, in order, that are passed as one long packet.
#[derive(Debug, Default)]
pub struct Train {
    packets: Vec<RawPacket>,
    /// Bytes of the merged packet.
    bytes: usize,
}

/// The common properties of a train's segments.
struct SegmentProperties<'a> {
    head: &'a [u8],
    start: usize,
    payload: usize,
    sequence: u32,
    flags: u8,
}

impl Train {
    /// Appends a packet, or returns it if it does not belong to the train.
    ///
    /// # Errors
    /// The packet.
    pub fn push(&mut self, packet: RawPacket) -> Result<(), RawPacket> {
        let fits = match self.packets.as_slice() {
            [] => true,
            [first, .., last] => continues_train(first, last, &packet),
            [only] => continues_train(only, only, &packet),
        };
        let more = segment_properties(&packet)
            .map_or(packet.bytes().len(), |segment_properties| segment_properties.payload);
        if !fits
            || (!self.packets.is_empty()
                && (self.packets.len() >= MAX_TRAIN_PACKETS || self.bytes + more > MAX_PACKET_BYTES))
        {
            return Err(packet);
        }
        self.bytes += if self.packets.is_empty() { packet.bytes().len() } else { more };
        self.packets.push(packet);
        Ok(())
    }

    /// The data to write, in this order, beginning with the header.
    pub fn parts(&mut self) -> Option<([u8; OffloadHeader::LEN], Vec<&[u8]>)> {
        let count = self.packets.len();
        let last_flags = self
            .packets
            .last()
            .and_then(|last| segment_properties(last).map(|segment_properties| segment_properties.flags));
        let total = self.bytes;
        let (first, rest) = self.packets.split_first_mut()?;
        let version = first.version();
        let mut offload = OffloadHeader { unfinished: first.unfinished(), segments: None };
        let Some(unfinished) = offload.unfinished.filter(|_| count > 1) else {
            return Some((offload.emit(version), vec![first.bytes()]));
        };
        let header = segment_properties(first).map_or(0, |segment_properties| segment_properties.head.len());
        let segment = first.bytes().len() - header;
        offload.segments = Some(Segments { header: header as u16, payload: segment as u16 });
        first.set_lengths(total, unfinished, last_flags.unwrap_or_default() & PSH);
        let parts =
            core::iter::once(first.bytes()).chain(rest.iter().map(|packet| &packet.bytes()[header..]));
        Some((offload.emit(version), parts.collect()))
    }

    /// Removes and returns the packets.
    pub fn drain(&mut self) -> impl Iterator<Item = RawPacket> + '_ {
        self.bytes = 0;
        self.packets.drain(..)
    }

    /// True if the list has no packets.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

/// Properties of a packet that may be merged: a TCP segment with payload and an unfinished checksum.
fn segment_properties(packet: &RawPacket) -> Option<SegmentProperties<'_>> {
    let unfinished = packet.unfinished().filter(|unfinished| unfinished.offset == TCP_CHECKSUM)?;
    let bytes = packet.bytes();
    let header = header_len(bytes, unfinished)?;
    let start = usize::from(unfinished.start);
    let sequence = bytes.get(start + 4..start + 8)?.try_into().ok().map(u32::from_be_bytes)?;
    Some(SegmentProperties {
        head: &bytes[..header],
        start,
        payload: bytes.len() - header,
        sequence,
        flags: bytes[start + 13],
    })
}

/// True if a packet continues a train that begins with `first` and ends with `last`.
fn continues_train(first: &RawPacket, last: &RawPacket, next: &RawPacket) -> bool {
    let (Some(first), Some(last), Some(next)) =
        (segment_properties(first), segment_properties(last), segment_properties(next))
    else {
        return false;
    };
    let plain = |segment_properties: &SegmentProperties<'_>| segment_properties.flags & !ACK_PSH == 0;
    let continues = last.sequence.wrapping_add(last.payload as u32) == next.sequence;
    // All but the last segment have equal lengths, and only the last one may have PSH.
    let even = last.payload == first.payload && next.payload <= first.payload && last.flags & PSH == 0;
    continues && even && plain(&first) && plain(&next) && same_headers(&first, &next)
}

/// True if two segments have the same headers, apart from fields that depend on their positions and lengths.
fn same_headers(one: &SegmentProperties<'_>, other: &SegmentProperties<'_>) -> bool {
    if one.head.len() != other.head.len() || one.start != other.start {
        return false;
    }
    let ip = if one.head[0] >> 4 == 4 { [2..6, 10..12] } else { [4..6, 4..6] };
    let at = one.start;
    let apart = |place: usize| {
        ip.iter().any(|range| range.contains(&place))
            || (at + 4..at + 8).contains(&place)
            || place == at + 13
            || (at + 16..at + 18).contains(&place)
    };
    one.head.iter().zip(other.head).enumerate().all(|(place, (one, other))| one == other || apart(place))
}

impl RawPacket {
    /// Sets the headers for `total` bytes, and adds flags.
    fn set_lengths(&mut self, total: usize, unfinished: Unfinished, flags: u8) {
        let at = usize::from(unfinished.start);
        let len = self.bytes().len();
        self.edit(|bytes| {
            bytes[at + 13] |= flags;
            bytes.resize(total, 0);
            finish_lengths(bytes, unfinished);
            bytes.truncate(len);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::{Body, Checksum, Ecn, Packet, Payload, tcp};
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    /// A packet in its form on a wire.
    fn wire_packet(ipv6: bool, offset: u64, len: u32) -> Vec<u8> {
        let address = |host: u8| -> IpAddr {
            if ipv6 {
                Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(host)).into()
            } else {
                Ipv4Addr::new(10, 0, 0, host).into()
            }
        };
        let segment = tcp::Segment {
            source_port: 7,
            seq: anabranch_wire::seq::Serial((u64::from(u32::MAX) - 2000 + offset) as u32),
            payload: Payload::new(offset, len),
            ..tcp::Segment::default()
        };
        let packet =
            Packet { source: address(1), destination: address(2), ecn: Ecn::Ect0, body: Body::Tcp(segment) };
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        bytes
    }

    /// The output of a kernel for a packet that is to be split into segments of `segment` bytes.
    fn output(bytes: &[u8], segment: u16) -> Vec<u8> {
        let start = if bytes[0] >> 4 == 4 { 20_u16 } else { 40 };
        let unfinished = Unfinished { start, offset: TCP_CHECKSUM };
        let segments = (segment > 0).then_some(Segments { header: 0, payload: segment });
        let header = OffloadHeader { unfinished: Some(unfinished), segments };
        let mut output = header.emit(bytes[0] >> 4).to_vec();
        let mut bytes = bytes.to_vec();
        finish_lengths(&mut bytes, unfinished);
        output.extend_from_slice(&bytes);
        output
    }

    fn collect_segments(output: &[u8]) -> Vec<RawPacket> {
        let mut packets = Vec::new();
        split_output(output, Vec::new, |packet| packets.push(packet));
        packets
    }

    /// The bytes with a finished checksum, as the next kernel would compute it.
    fn finished(packet: &RawPacket) -> Vec<u8> {
        let Unfinished { start, offset } = packet.unfinished().expect("an unfinished checksum");
        let mut bytes = packet.bytes().to_vec();
        let sum = Checksum::new().bytes(&bytes[usize::from(start)..]).finish();
        let field = usize::from(start + offset);
        bytes[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn long_packet_is_split_into_wire_packets() {
        for ipv6 in [false, true] {
            let packets = collect_segments(&output(&wire_packet(ipv6, 0, 3500), 1448));
            let lens: Vec<u32> = [1448, 1448, 604].to_vec();
            assert_eq!(packets.len(), 3);
            let mut offset = 0;
            for (packet, len) in packets.iter().zip(lens) {
                let parsed = Packet::parse(&finished(packet)).expect("every length and checksum is correct");
                let expected =
                    Packet::parse(&wire_packet(ipv6, offset, len)).expect("the same packet from the sender");
                let (Body::Tcp(ours), Body::Tcp(theirs)) = (&parsed.body, &expected.body) else {
                    panic!("tcp")
                };
                assert_eq!((ours.seq, ours.payload.len), (theirs.seq, theirs.payload.len));
                let head = if ipv6 { 60 } else { 40 };
                assert_eq!(finished(packet)[head..], wire_packet(ipv6, offset, len)[head..]);
                offset += u64::from(len);
            }
        }
    }

    #[test]
    fn packet_with_a_wrong_header_is_not_split() {
        // Transport headers at the wrong place: within the header of IPv6, or within options of IPv4.
        for (ipv6, start) in [(true, 20), (true, 39), (false, 20)] {
            let mut whole = wire_packet(ipv6, 0, 3500);
            if !ipv6 {
                whole[0] = 0x4f;
            }
            for offset in [TCP_CHECKSUM, UDP_CHECKSUM] {
                let unfinished = Some(Unfinished { start, offset });
                let segments = Some(Segments { header: 0, payload: 1 });
                for len in 1..whole.len() {
                    let header = OffloadHeader { unfinished, segments }.emit(whole[0] >> 4);
                    let output: Vec<u8> = header.iter().chain(&whole[..len]).copied().collect();
                    assert!(collect_segments(&output).len() <= 1, "{start} {len}");
                }
            }
        }
    }

    #[test]
    fn split_packets_are_merged_only_in_order() {
        for ipv6 in [false, true] {
            let original = output(&wire_packet(ipv6, 0, 3500), 1448);
            let packets = collect_segments(&original);
            let mut train = Train::default();
            for packet in packets.clone() {
                train.push(packet).expect("the packets are consecutive");
            }
            let (vnet_header, parts) = train.parts().expect("the train is not empty");
            let again: Vec<u8> = vnet_header.iter().chain(parts.into_iter().flatten()).copied().collect();
            // The header of a train also contains the length of the headers.
            assert_eq!(again[4..], original[4..]);
            assert_eq!(again[..2], original[..2]);
            let mut other = Train::default();
            other.push(packets[1].clone()).expect("any packet may be the first");
            assert!(other.push(packets[0].clone()).is_err(), "backwards");
            assert!(other.push(packets[2].clone()).is_ok());
            assert!(other.push(packets[2].clone()).is_err(), "a repetition, behind a short packet");
        }
    }

    #[test]
    fn marks_flags_and_gaps_prevent_merging() {
        use anabranch_netem::Frame;
        let packets = collect_segments(&output(&wire_packet(false, 0, 3500), 1448));
        let refused = |change: &dyn Fn(&mut RawPacket)| {
            let mut train = Train::default();
            train.push(packets[0].clone()).expect("any packet may be the first");
            let mut second = packets[1].clone();
            change(&mut second);
            train.push(second).is_err()
        };
        assert!(!refused(&|_| {}));
        assert!(refused(&|packet| packet.mark()), "a different ECN field");
        assert!(refused(&|packet| packet.edit(|bytes| bytes[33] |= 1)), "FIN");
        assert!(refused(&|packet| packet.edit(|bytes| bytes[31] ^= 1)), "a different acknowledgement");
        assert!(refused(&|packet| packet.edit(|bytes| bytes[27] ^= 1)), "a gap in the stream");
        let complete = RawPacket::new(finished(&packets[1])).expect("a packet");
        let mut train = Train::default();
        train.push(packets[0].clone()).expect("any packet may be the first");
        assert!(train.push(complete).is_err(), "a finished checksum");
    }

    #[test]
    fn invalid_headers_give_no_packets() {
        assert_eq!(collect_segments(&[0; 5]), []);
        assert_eq!(collect_segments(&[0; OffloadHeader::LEN]), []);
        let sensible = output(&wire_packet(false, 0, 3000), 1000);
        for (at, value) in [(4, 0), (6, 255), (8, 200)] {
            let mut strange = sensible.clone();
            strange[at] = value;
            // At most four packets, and no panic.
            assert!(collect_segments(&strange).len() <= 4, "{at}");
        }
        for len in 0..sensible.len().min(80) {
            let _ = collect_segments(&sensible[..len]);
        }
    }
}
