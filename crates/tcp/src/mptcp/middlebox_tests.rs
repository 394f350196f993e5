//! Mappings and segments whose boundaries differ, as middleboxes, segmentation offload and other senders produce
//! them.

use super::tests::{Setup, extra};
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_testkit::harness::Wire;
use anabranch_wire::tcp::Segment;
use anabranch_wire::tcp::mptcp::{DataChecksum, DataNumber, Dss, Mapping, dss_checksum};
use anabranch_wire::{Body, Checksum, Packet, Pattern};

fn segment(packet: &mut Packet) -> &mut Segment {
    match &mut packet.body {
        Body::Tcp(segment) => segment,
        other => panic!("not TCP: {other:?}"),
    }
}

/// The mapping of a segment with data, in its DSS.
fn mapping(packet: &Packet) -> Option<Mapping> {
    let Body::Tcp(segment) = &packet.body else { return None };
    let Some(Dss { mapping, data_fin: false, .. }) = segment.options.mptcp.dss else { return None };
    mapping.filter(|_| !segment.payload.is_empty())
}

/// Cuts each segment with data into three. The DSS is on all three (`everywhere`), or on the first only.
fn split(packets: Vec<Packet>, everywhere: bool) -> Vec<Packet> {
    let mut out = Vec::new();
    for mut packet in packets {
        packet.settle(&Pattern);
        let len = segment(&mut packet).payload.len;
        if mapping(&packet).is_none() || len < 10 {
            out.push(packet);
            continue;
        }
        // The first piece has an odd number of bytes, so that the checksum of the second starts at an odd position.
        for (from, to) in [(0, 7), (7, len / 2), (len / 2, len)] {
            let mut part = packet.clone();
            let piece = segment(&mut part);
            piece.payload = piece.payload.part(from, to - from);
            piece.seq = piece.seq.add(from);
            if from > 0 && !everywhere {
                piece.options.mptcp.dss = piece.options.mptcp.dss.map(|dss| Dss { mapping: None, ..dss });
            }
            out.push(part);
        }
    }
    out
}

/// Returns true if the second segment continues the first.
fn adjoin(first: &Packet, second: &Packet) -> bool {
    let (Body::Tcp(a), Body::Tcp(b)) = (&first.body, &second.body) else { return false };
    mapping(first).is_some()
        && mapping(second).is_some()
        && (first.source, first.destination) == (second.source, second.destination)
        && a.seq.add(a.payload.len) == b.seq
        && a.payload.len < 2000
        && a.payload.end() == b.payload.offset
}

/// Merges two adjoining segments; the options of the second are lost.
fn merge(packets: Vec<Packet>) -> Vec<Packet> {
    let mut out: Vec<Packet> = Vec::new();
    for mut packet in packets {
        packet.settle(&Pattern);
        match out.last_mut().filter(|last| adjoin(last, &packet)) {
            Some(last) => {
                let len = segment(&mut packet).payload.len;
                segment(last).payload.len += len;
            }
            None => out.push(packet),
        }
    }
    out
}

/// Gives two adjoining segments one mapping, as a sender does that maps before it segments. The mapping is on both
/// (`everywhere`), or on the first only.
fn span(mut packets: Vec<Packet>, everywhere: bool) -> Vec<Packet> {
    for at in 1..packets.len() {
        let [first, second] = &mut packets[at - 1..=at] else { unreachable!("two") };
        if at % 2 == 0 || !adjoin(first, second) {
            continue;
        }
        let whole = segment(first).payload.len + segment(second).payload.len;
        let mut one = mapping(first).expect("the first packet has a mapping");
        let DataNumber::Long(dsn) = one.dsn else { panic!("not 8 bytes") };
        one.len = whole as u16;
        if one.checksum.is_some() {
            let payload = anabranch_wire::Payload::new(segment(first).payload.offset, whole);
            let sum = Checksum::new().pattern(payload);
            one.checksum = Some(DataChecksum::Known(dss_checksum(dsn, one.subflow_seq, one.len, sum)));
        }
        for (packet, mapping) in [(first, Some(one)), (second, everywhere.then_some(one))] {
            let options = &mut segment(packet).options.mptcp;
            options.dss = options.dss.map(|dss| Dss { mapping, ..dss });
        }
    }
    packets
}

fn transfer(checksum: bool, paths: &str, middlebox: impl FnMut(Vec<Packet>) -> Vec<Packet> + 'static) {
    let setup = Setup { checksum, paths: paths.into(), ..Setup::default() };
    let wire = Wire { loss: 0.02, reorder: 0.02, duplicate: 0.02, ..Wire::new(5) };
    let mut pair = setup.pair(wire.clone(), wire);
    pair.middlebox = Some(Box::new(middlebox));
    assert!(pair.send_file(400_000, 300.0), "{} at {:?}", pair.sinks[1].delivered, pair.now);
    assert_eq!(extra(&pair, 1, "checksum_failures"), 0);
    assert!(!pair.ends[0].report().fallback && !pair.ends[1].report().fallback);
}

#[test]
fn split_and_merged_segments_transfer_all_data() {
    for checksum in [false, true] {
        transfer(checksum, "disjoint", |packets| split(packets, true));
        transfer(checksum, "disjoint", |packets| split(packets, false));
        transfer(checksum, "default", merge);
    }
}

#[test]
fn mappings_that_span_segments_are_complete() {
    for checksum in [false, true] {
        transfer(checksum, "default", |packets| span(packets, true));
        transfer(checksum, "default", |packets| span(packets, false));
        transfer(checksum, "default", |packets| split(span(packets, true), true));
        transfer(checksum, "default", |packets| merge(span(packets, true)));
    }
}

#[test]
fn wrong_byte_in_multi_segment_mapping_is_detected() {
    let mut setup =
        Setup { checksum: true, paths: "disjoint".into(), scheduler: "lowest-rtt", ..Setup::default() };
    setup.tcp.abc_limit = Some(1);
    // The second path is slow, so that segments on the first adjoin.
    let mut pair = setup.pair(Wire::new(5), Wire::new(100));
    let mut count = 0;
    pair.damaged = true;
    pair.middlebox = Some(Box::new(move |packets| {
        let mut packets = span(packets, true);
        for packet in &mut packets {
            let spans = mapping(packet).is_some_and(|m| u32::from(m.len) > segment(packet).payload.len);
            count += u32::from(spans);
            if spans && count == 100 {
                segment(packet).payload.offset ^= 1;
            }
        }
        packets
    }));
    assert!(pair.send_file(1_000_000, 60.0), "{} at {:?}", pair.sinks[1].delivered, pair.now);
    assert_eq!(extra(&pair, 1, "checksum_failures"), 1);
    assert!(!pair.ends[1].report().fallback);
}
