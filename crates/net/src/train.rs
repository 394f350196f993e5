//! Segments of a connection that this stack passes to the kernel as one packet.
//!
//! Segments with mappings of Multipath TCP are joined only if the packet is not cut again. Each piece would carry the mapping
//! of all bytes. If one is lost, its retransmission has another mapping, and Linux falls back to TCP or resets when mappings
//! overlap (`DSSNotMatching`).
//!
//! A kernel processes a long packet almost as quickly as a short one, and a packet takes one system call. So a device collects
//! consecutive segments of a connection. Their headers are the same but for number and lengths.

use crate::device::Fill;
use crate::offload::{MAX_PACKET_BYTES, OffloadHeader, Segments, TCP_CHECKSUM, Unfinished, finish_lengths};
use anabranch_wire::tcp::mptcp::{DataNumber, Dss, Mapping};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Packet};
use core::net::IpAddr;
use std::io;

/// The destinations at which joined segments arrive as one packet.
#[derive(Clone, Debug)]
pub enum Uncut {
    /// All.
    Everywhere,
    /// These addresses, of the kernel that gets the packets. It may forward others through devices that cut them.
    At(Vec<IpAddr>),
}

/// Consecutive segments, and other packets as trains of one.
#[derive(Debug)]
pub struct Train {
    uncut: Uncut,
    /// The offload header, the first packet, and the payloads of the others.
    bytes: Vec<u8>,
    first: Option<FirstSegment>,
    /// Payload of all segments.
    payload: u32,
    count: usize,
    /// True if a short segment, or one with PSH, was the last one that fits.
    is_complete: bool,
}

/// The first segment of a train that others may continue.
#[derive(Debug)]
struct FirstSegment {
    packet: Packet,
    /// Length of the IP header.
    ip_len: usize,
}

impl FirstSegment {
    /// `None` if the packet cannot be followed by others.
    fn new(packet: &Packet) -> Option<Self> {
        let segment = segment_of(packet)?;
        let is_plain = segment.payload.len > 0 && segment.flags == Flags::ACK && segment.ip_option.is_none();
        let ip_len = (packet.wire_len() - segment.wire_len()) as usize;
        is_plain.then(|| Self { packet: packet.clone(), ip_len })
    }

    fn segment(&self) -> &Segment {
        segment_of(&self.packet).expect("a train begins with a segment")
    }

    /// True if the segment of `packet` follows `skipped` bytes after the first one.
    fn is_followed_by(&self, packet: &Packet, skipped: u32) -> bool {
        let (Some(next), first) = (segment_of(packet), self.segment()) else { return false };
        let same_hosts = (packet.source, packet.destination, packet.ecn)
            == (self.packet.source, self.packet.destination, self.packet.ecn);
        let same_ports =
            (next.source_port, next.destination_port) == (first.source_port, first.destination_port);
        same_hosts
            && same_ports
            && next.seq == first.seq.add(skipped)
            && (1..=first.payload.len).contains(&next.payload.len)
            && (next.ack, next.window, next.urgent) == (first.ack, first.window, first.urgent)
            && next.flags.0 & !Flags::PSH.0 == Flags::ACK.0
            && next.ip_option.is_none()
            && options_continue(first, next, skipped)
    }
}

const fn segment_of(packet: &Packet) -> Option<&Segment> {
    match &packet.body {
        Body::Tcp(segment) => Some(segment),
        _ => None,
    }
}

/// True if the options are the same, but for a mapping that continues the other one.
fn options_continue(one: &Segment, other: &Segment, skipped: u32) -> bool {
    let (first, next) = (&one.options, &other.options);
    let same = (first.mss, first.window_scale, first.sack_permitted, first.timestamps)
        == (next.mss, next.window_scale, next.sack_permitted, next.timestamps)
        && first.sack == next.sack;
    let (Some(before), Some(after)) = (first.mptcp.get(), next.mptcp.get()) else {
        return same && first.mptcp.get() == next.mptcp.get();
    };
    let dss_continues = match (&before.dss, &after.dss) {
        (Some(before), Some(after)) => {
            covers_payload(before, one)
                && covers_payload(after, other)
                && mapping_continues(before, after, skipped)
        }
        _ => false,
    };
    same && dss_continues && before.others.is_empty() && after.others.is_empty()
}

/// True if one mapping can replace `before` and `after`, whose segment begins `skipped` bytes after that of `before`.
fn mapping_continues(before: &Dss, after: &Dss, skipped: u32) -> bool {
    let (Some(one), Some(other)) = (before.mapping, after.mapping) else { return false };
    let continues = match (one.dsn, other.dsn) {
        (DataNumber::Short(one), DataNumber::Short(other)) => other == one.wrapping_add(skipped),
        (DataNumber::Long(one), DataNumber::Long(other)) => other == one.wrapping_add(u64::from(skipped)),
        _ => false,
    };
    continues
        && other.subflow_seq == one.subflow_seq.wrapping_add(skipped)
        && before.data_ack == after.data_ack
        && !(before.data_fin || after.data_fin)
        && one.checksum.is_none()
        && other.checksum.is_none()
}

/// True if the mapping covers the payload of its segment and nothing else.
fn covers_payload(dss: &Dss, segment: &Segment) -> bool {
    dss.mapping.is_some_and(|mapping| u32::from(mapping.len) == segment.payload.len)
}

impl Train {
    /// An empty train.
    pub const fn new(uncut: Uncut) -> Self {
        Self { uncut, bytes: Vec::new(), first: None, payload: 0, count: 0, is_complete: false }
    }

    /// Sets the destinations at which joined segments arrive as one packet.
    pub fn set_uncut(&mut self, uncut: Uncut) {
        self.uncut = uncut;
    }

    /// True if segments with mappings may be joined for this destination.
    fn joins_mappings(&self, destination: IpAddr) -> bool {
        match &self.uncut {
            Uncut::Everywhere => true,
            Uncut::At(addresses) => addresses.contains(&destination),
        }
    }

    /// Appends a packet with the payload bytes of `fill`. Returns false if it does not continue the train.
    fn push(&mut self, packet: &Packet, fill: Fill<'_>) -> bool {
        if self.count == 0 {
            self.bytes.clear();
            self.bytes.extend_from_slice(&[0; OffloadHeader::LEN]);
            packet.emit_with(&mut self.bytes, fill);
            self.first = FirstSegment::new(packet);
            self.payload = segment_of(packet).map_or(0, |segment| segment.payload.len);
            let has_mapping =
                self.first.as_ref().is_some_and(|first| first.segment().options.mptcp.get().is_some());
            self.is_complete =
                self.first.is_none() || has_mapping && !self.joins_mappings(packet.destination);
            self.count = 1;
            return true;
        }
        let Some((first, segment)) = self.first.as_ref().zip(segment_of(packet)) else { return false };
        let payload = segment.payload;
        let len = self.bytes.len() - OffloadHeader::LEN + payload.len as usize;
        if self.is_complete || len > MAX_PACKET_BYTES || !first.is_followed_by(packet, self.payload) {
            return false;
        }
        let at = self.bytes.len();
        self.bytes.resize(at + payload.len as usize, 0);
        fill(payload, &mut self.bytes[at..]);
        self.is_complete = payload.len < first.segment().payload.len || segment.flags.intersects(Flags::PSH);
        if segment.flags.intersects(Flags::PSH) {
            let flags = OffloadHeader::LEN + first.ip_len + 13;
            self.bytes[flags] |= Flags::PSH.0;
        }
        self.payload += payload.len;
        self.count += 1;
        true
    }

    /// Appends a packet as [`push`](Self::push) does. If it does not continue the train, `pass` gets the train first, and may
    /// keep its buffer.
    ///
    /// # Errors
    /// Those of `pass`.
    pub fn send(
        &mut self,
        packet: &Packet,
        fill: Fill<'_>,
        pass: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.push(packet, fill) {
            self.flush(pass)?;
            self.push(packet, fill);
        }
        Ok(())
    }

    /// Empties the train; `pass` gets the offload header and the packet, if there is one, and may keep the buffer.
    ///
    /// # Errors
    /// Those of `pass`.
    pub fn flush(&mut self, pass: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
        self.take().map_or(Ok(()), pass)
    }

    /// Returns the offload header and the packet, and empties the train. `None` if it is empty.
    fn take(&mut self) -> Option<&mut Vec<u8>> {
        let count = core::mem::take(&mut self.count);
        if count == 0 {
            return None;
        }
        if count > 1
            && let Some(first) = self.first.take()
        {
            self.join(&first);
        }
        Some(&mut self.bytes)
    }

    /// Completes the headers of a train of several segments.
    fn join(&mut self, first: &FirstSegment) {
        let segment = first.segment();
        let (header, packet) = self.bytes.split_at_mut(OffloadHeader::LEN);
        let transport = first.ip_len..first.ip_len + segment.header_len() as usize;
        if let Some(dss) = segment.options.mptcp.get().and_then(|options| options.dss) {
            write_mapping(&mut packet[transport.clone()], segment, (dss, self.payload));
        }
        let unfinished = Unfinished { start: first.ip_len as u16, offset: TCP_CHECKSUM };
        finish_lengths(packet, unfinished);
        let segments = Segments { header: transport.end as u16, payload: segment.payload.len as u16 };
        let offload = OffloadHeader { unfinished: Some(unfinished), segments: Some(segments) };
        header.copy_from_slice(&offload.emit(packet[0] >> 4));
    }
}

/// Writes the mapping of `len` bytes in place of the first segment's. The options keep their lengths and places.
fn write_mapping(header: &mut [u8], segment: &Segment, (dss, len): (Dss, u32)) {
    let mut options = segment.options.clone();
    let mapping = dss.mapping.map(|mapping| Mapping { len: len as u16, ..mapping });
    options.mptcp.dss = Some(Dss { mapping, ..dss });
    let mut bytes = Vec::with_capacity(header.len());
    options.emit(&mut bytes);
    header[Segment::MIN_HEADER_LEN as usize..].copy_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::split_output;
    use anabranch_wire::seq::Serial;
    use anabranch_wire::tcp::mptcp::DataChecksum;
    use anabranch_wire::tcp::{Options, Timestamps};
    use anabranch_wire::{Ecn, Payload};
    use core::net::{Ipv4Addr, Ipv6Addr};

    const SEGMENT: u32 = 1400;
    /// Just below the largest sequence number, so that a train wraps.
    const FIRST: u32 = u32::MAX - 2000;

    /// A segment `at` bytes behind the first one.
    fn packet(is_ipv6: bool, at: u32, len: u32) -> Packet {
        let address = |host: u16| -> IpAddr {
            if is_ipv6 {
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host).into()
            } else {
                Ipv4Addr::new(10, 0, 0, host as u8).into()
            }
        };
        let segment = Segment {
            source_port: 5,
            destination_port: 6,
            seq: Serial(FIRST).add(at),
            ack: Serial(77),
            flags: Flags::ACK,
            window: 500,
            options: Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), ..Options::default() },
            payload: Payload::new(9000 + u64::from(at), len),
            ..Segment::default()
        };
        Packet { source: address(1), destination: address(2), ecn: Ecn::Ect0, body: Body::Tcp(segment) }
    }

    fn edit(packet: &mut Packet) -> &mut Segment {
        match &mut packet.body {
            Body::Tcp(segment) => segment,
            _ => panic!("not TCP"),
        }
    }

    /// Gives a segment `at` bytes behind the first one its mapping.
    fn map(packet: &mut Packet, at: u32) {
        let len = segment_of(packet).expect("TCP").payload.len as u16;
        let dsn = DataNumber::Long(u64::from(u32::MAX) - 100 + u64::from(at));
        let mapping = Mapping { dsn, subflow_seq: 1 + at, len, checksum: None };
        let dss = Dss { data_ack: Some(DataNumber::Short(8)), mapping: Some(mapping), data_fin: false };
        edit(packet).options.mptcp.dss = Some(dss);
    }

    fn push(train: &mut Train, packet: &Packet) -> bool {
        train.push(packet, &mut |payload, bytes| payload.fill(bytes))
    }

    /// The packets that a network card makes of a train, as they are on the wire.
    fn cut(train: &mut Train) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        split_output(train.take().expect("not empty"), Vec::new, |packet| {
            let mut bytes = Vec::new();
            packet.append_finished(&mut bytes);
            packets.push(bytes);
        });
        assert_eq!(train.take(), None);
        packets
    }

    fn wire(packet: &Packet) -> Vec<u8> {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        bytes
    }

    #[test]
    fn train_is_cut_into_its_segments() {
        for is_ipv6 in [false, true] {
            for (count, last) in [(1, SEGMENT), (2, SEGMENT), (2, 1), (40, 700), (46, SEGMENT)] {
                let mut packets: Vec<_> = (0..count).map(|n| packet(is_ipv6, n * SEGMENT, SEGMENT)).collect();
                *packets.last_mut().expect("one at least") = packet(is_ipv6, (count - 1) * SEGMENT, last);
                if last < SEGMENT {
                    edit(packets.last_mut().expect("one at least")).flags |= Flags::PSH;
                }
                let mut train = Train::new(Uncut::Everywhere);
                assert!(packets.iter().all(|packet| push(&mut train, packet)));
                let mut expected: Vec<_> = packets.iter().map(wire).collect();
                if !is_ipv6 {
                    // A card counts the identifications up.
                    for (number, bytes) in expected.iter_mut().enumerate() {
                        let before = u16::from_be_bytes([bytes[4], bytes[5]]);
                        bytes[4..6].copy_from_slice(&(before + number as u16).to_be_bytes());
                        anabranch_wire::ip::ipv4::set_checksum(bytes);
                    }
                }
                assert_eq!(cut(&mut train), expected, "{count} {last}");
            }
        }
    }

    #[test]
    fn train_has_one_mapping() {
        for is_ipv6 in [false, true] {
            let mut train = Train::new(Uncut::Everywhere);
            let mut first = packet(is_ipv6, 0, SEGMENT);
            map(&mut first, 0);
            assert!(push(&mut train, &first));
            for at in [SEGMENT, 2 * SEGMENT] {
                let mut next = packet(is_ipv6, at, SEGMENT);
                map(&mut next, at);
                assert!(push(&mut train, &next));
            }
            for (number, bytes) in cut(&mut train).iter().enumerate() {
                let parsed = Packet::parse(bytes).expect("all lengths and checksums are correct");
                let mut expected = packet(is_ipv6, number as u32 * SEGMENT, SEGMENT);
                map(&mut expected, 0);
                edit(&mut expected)
                    .options
                    .mptcp
                    .dss
                    .as_mut()
                    .and_then(|dss| dss.mapping.as_mut())
                    .expect("mapped")
                    .len = 3 * SEGMENT as u16;
                let (found, expected) =
                    (segment_of(&parsed).expect("TCP"), segment_of(&expected).expect("TCP"));
                assert_eq!((found.seq, &found.options), (expected.seq, &expected.options));
                let range = found.payload.offset as usize..found.payload.end() as usize;
                let mut payload = vec![0; SEGMENT as usize];
                expected.payload.fill(&mut payload);
                assert_eq!(bytes[range], payload);
            }
        }
    }

    #[test]
    fn other_packets_begin_another_train() {
        let refuses = |change: &dyn Fn(&mut Packet)| {
            let mut train = Train::new(Uncut::Everywhere);
            assert!(push(&mut train, &packet(false, 0, SEGMENT)));
            let mut next = packet(false, SEGMENT, SEGMENT);
            change(&mut next);
            let expected = wire(&packet(false, 0, SEGMENT));
            let refused = !push(&mut train, &next);
            assert!(!refused || cut(&mut train) == [expected]);
            refused
        };
        assert!(!refuses(&|_| {}));
        assert!(refuses(&|packet| packet.ecn = Ecn::NotEct));
        assert!(refuses(&|packet| packet.destination = [10, 0, 0, 3].into()));
        assert!(refuses(&|packet| edit(packet).seq = Serial(FIRST)));
        assert!(refuses(&|packet| edit(packet).source_port = 4));
        assert!(refuses(&|packet| edit(packet).ack = Serial(78)));
        assert!(refuses(&|packet| edit(packet).window = 501));
        assert!(refuses(&|packet| edit(packet).flags |= Flags::FIN));
        assert!(refuses(&|packet| edit(packet).flags |= Flags::CWR));
        assert!(refuses(&|packet| edit(packet).payload = Payload::EMPTY));
        assert!(refuses(&|packet| edit(packet).payload.len = SEGMENT + 1));
        assert!(refuses(&|packet| edit(packet).options.timestamps = None));
        assert!(refuses(&|packet| assert!(edit(packet).options.sack.push(Serial(1), Serial(2)))));
        assert!(refuses(&|packet| map(packet, SEGMENT)), "only one has a mapping");
    }

    #[test]
    fn mappings_with_gaps_or_checksums_are_not_joined() {
        let refuses = |change: &dyn Fn(&mut Dss)| {
            let mut train = Train::new(Uncut::Everywhere);
            let [first, mut next] = [0, SEGMENT].map(|at| {
                let mut packet = packet(true, at, SEGMENT);
                map(&mut packet, at);
                packet
            });
            assert!(push(&mut train, &first));
            change(edit(&mut next).options.mptcp.dss.as_mut().expect("mapped"));
            !push(&mut train, &next)
        };
        let mapping =
            |dss: &mut Dss, change: &dyn Fn(&mut Mapping)| change(dss.mapping.as_mut().expect("mapped"));
        assert!(!refuses(&|_| {}));
        assert!(refuses(&|dss| dss.data_ack = None));
        assert!(refuses(&|dss| dss.data_fin = true));
        assert!(refuses(&|dss| dss.mapping = None));
        assert!(refuses(&|dss| mapping(dss, &|mapping| mapping.dsn = DataNumber::Long(7))));
        assert!(refuses(&|dss| mapping(dss, &|mapping| mapping.subflow_seq += 1)));
        assert!(refuses(&|dss| mapping(dss, &|mapping| mapping.len -= 1)));
        assert!(refuses(&|dss| mapping(dss, &|mapping| mapping.checksum = Some(DataChecksum::Known(0)))));
    }

    #[test]
    fn mappings_are_not_joined_for_other_machines() {
        for (host, is_joined) in [(2_u16, true), (3, false), (4, true)] {
            let mut train = Train::new(Uncut::At(vec![[10, 0, 0, 4].into(), [10, 0, 0, 2].into()]));
            for at in [0, SEGMENT] {
                let mut packet = packet(false, at, SEGMENT);
                packet.destination = Ipv4Addr::new(10, 0, 0, host as u8).into();
                map(&mut packet, at);
                assert_eq!(push(&mut train, &packet), at == 0 || is_joined, "{host}");
            }
            // Segments without mappings are joined for any destination.
            train.take();
            for at in [0, SEGMENT] {
                assert!(push(&mut train, &packet(false, at, SEGMENT)));
            }
        }
    }

    #[test]
    fn short_or_pushed_segment_is_the_last_one() {
        for is_pushed in [false, true] {
            let mut train = Train::new(Uncut::Everywhere);
            assert!(push(&mut train, &packet(false, 0, SEGMENT)));
            let len = if is_pushed { SEGMENT } else { SEGMENT - 1 };
            let mut last = packet(false, SEGMENT, len);
            edit(&mut last).flags.0 |= if is_pushed { Flags::PSH.0 } else { 0 };
            assert!(push(&mut train, &last));
            assert!(!push(&mut train, &packet(false, SEGMENT + len, 100)), "{is_pushed}");
        }
        // The longest packet: 52 bytes of headers and 46 segments of 1,400 bytes; another one would exceed 65,535.
        let mut train = Train::new(Uncut::Everywhere);
        assert!((0..46).all(|n| push(&mut train, &packet(false, n * SEGMENT, SEGMENT))));
        assert!(!push(&mut train, &packet(false, 46 * SEGMENT, SEGMENT)));
        assert!(push(&mut train, &packet(false, 46 * SEGMENT, 1000)), "65,452 bytes");
    }
}
