//! Packets that a host would refuse but that a capture may contain.

use super::*;
use crate::ip::option::IpOption;
use crate::sctp::Chunk;
use crate::seq::Serial;
use crate::tcp::mptcp::{Dss, Options as Mptcp};
use crate::tcp::{Flags, Options, Segment, Timestamps};

fn segment(payload: u32) -> Packet {
    let dss = Dss { data_fin: true, ..Dss::default() };
    let options = Options {
        timestamps: Some(Timestamps { value: 1, echo: 2 }),
        mptcp: Mptcp { dss: Some(dss), others: Vec::new() }.into(),
        ..Options::default()
    };
    let body = Segment {
        seq: Serial(7),
        flags: Flags::ACK,
        options,
        payload: Payload::new(0, payload),
        ..Segment::default()
    };
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    Packet { source, destination, ecn: Ecn::Ect0, body: Body::Tcp(body) }
}

fn data(payload: u32) -> Packet {
    let chunk = |len| {
        Chunk::Data(sctp::Data { tsn: Serial(len), payload: Payload::new(0, len), ..sctp::Data::default() })
    };
    let body = sctp::Packet {
        source_port: 1,
        destination_port: 2,
        verification_tag: 3,
        chunks: vec![chunk(8), chunk(payload)].into(),
        udp: None,
        may_fragment: false,
        zero_checksum: false,
    };
    let (source, destination) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    Packet { source, destination, ecn: Ecn::NotEct, body: Body::Sctp(body) }
}

/// The packet as bytes.
fn encoded(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    bytes
}

/// The length on the wire of a captured segment's payload.
fn payload_len(captured: &Captured) -> u32 {
    let Body::Tcp(segment) = &captured.packet.body else { panic!("a segment") };
    segment.payload.len
}

#[test]
fn whole_packets_equal_those_of_the_strict_parser() {
    for packet in [segment(100), segment(0), data(100)] {
        let bytes = encoded(&packet);
        let captured = parse(&bytes, bytes.len() as u32).unwrap();
        let mut expected = Packet::parse(&bytes).unwrap();
        let mut found = captured.packet;
        expected.for_each_payload(|payload| payload.offset = 0);
        found.for_each_payload(|payload| payload.offset = 0);
        assert_eq!((found, captured.is_cut), (expected, false));
    }
}

#[test]
fn source_routes_have_the_last_destination() {
    let route = SourceRoute::new(&[[10, 0, 1, 9], [10, 0, 2, 2]].map(Ipv4Addr::from));
    let mut packet = segment(100);
    let Body::Tcp(segment) = &mut packet.body else { panic!("a segment") };
    segment.ip_option = Some(Box::new(IpOption::SourceRoute(route)));
    let mut bytes = encoded(&packet);
    let destination =
        |bytes: &[u8]| parse(bytes, bytes.len() as u32).map(|captured| captured.packet.destination);
    assert_eq!(destination(&bytes), Ok([10, 0, 2, 2].into()));
    SourceRoute::follow_in(&mut bytes, Ipv4Addr::new(10, 0, 1, 1));
    assert_eq!(destination(&bytes), Ok([10, 0, 2, 2].into()));
    // The capture has cut the option.
    assert_eq!(parse(&bytes[..20], 132).map(|captured| captured.packet.destination).ok(), None);
}

#[test]
fn wrong_checksums_are_accepted() {
    let mut bytes = encoded(&segment(100));
    bytes[36] ^= 0xff;
    assert!(Packet::parse(&bytes).is_err());
    assert_eq!(payload_len(&parse(&bytes, bytes.len() as u32).unwrap()), 100);
}

#[test]
fn cut_segments_keep_their_length_and_options() {
    let bytes = encoded(&segment(1000));
    let header = bytes.len() - 1000;
    let captured = parse(&bytes[..header], bytes.len() as u32).unwrap();
    assert_eq!((payload_len(&captured), captured.is_cut), (1000, false));
    // The capture ends within the DSS option: the timestamps remain.
    let captured = parse(&bytes[..header - 2], bytes.len() as u32).unwrap();
    assert_eq!((payload_len(&captured), captured.is_cut), (1000, true));
    let Body::Tcp(segment) = captured.packet.body else { panic!("a segment") };
    assert_eq!((segment.options.timestamps.is_some(), segment.options.mptcp.is_empty()), (true, true));
    assert!(parse(&bytes[..39], bytes.len() as u32).is_err());
}

#[test]
fn length_of_offloaded_packets_is_that_of_the_capture() {
    let mut bytes = encoded(&segment(1000));
    bytes[2..4].fill(0);
    assert_eq!(payload_len(&parse(&bytes, bytes.len() as u32).unwrap()), 1000);
}

#[test]
fn padding_of_the_link_is_no_payload() {
    let mut bytes = encoded(&segment(0));
    bytes.extend_from_slice(&[0; 9]);
    assert_eq!(payload_len(&parse(&bytes, bytes.len() as u32).unwrap()), 0);
}

#[test]
fn cut_sack_keeps_its_first_gap_blocks() {
    let gaps = |from: u16| (from..from + 4).map(|at| sctp::GapBlock::new(3 * at, 3 * at + 1)).collect();
    let sack = sctp::Sack {
        cumulative_tsn: Serial(9),
        a_rwnd: 77,
        gaps: gaps(1),
        duplicates: vec![Serial(5)].into(),
        ..sctp::Sack::default()
    };
    let nr_sack = sctp::NrSack { sack: sack.clone(), nr_gaps: gaps(5) };
    let packet = |chunk: Chunk| {
        let Packet { source, destination, ecn, body: Body::Sctp(body) } = data(1) else { panic!("SCTP") };
        let body = Body::Sctp(sctp::Packet { chunks: vec![chunk].into(), ..body });
        Packet { source, destination, ecn, body }
    };
    let blocks = |chunk: &Chunk, missing: usize| {
        let bytes = encoded(&packet(chunk.clone()));
        let captured = parse(&bytes[..bytes.len() - missing], bytes.len() as u32).unwrap();
        let Body::Sctp(packet) = captured.packet.body else { panic!("SCTP") };
        let counts = packet.chunks.iter().map(|chunk| match chunk {
            Chunk::Sack(sack) => (sack.cumulative_tsn, sack.a_rwnd, sack.gaps.len(), 0),
            Chunk::NrSack(both) => {
                (both.sack.cumulative_tsn, both.sack.a_rwnd, both.sack.gaps.len(), both.nr_gaps.len())
            }
            _ => panic!("a SACK"),
        });
        (counts.collect::<Vec<_>>(), captured.is_cut)
    };
    let expected = |renegable, kept, is_cut| (vec![(Serial(9), 77, renegable, kept)], is_cut);
    let (sack, nr_sack) = (Chunk::Sack(sack), Chunk::NrSack(Box::new(nr_sack)));
    assert_eq!(blocks(&sack, 0), expected(4, 0, false));
    // The cut removes the duplicate, then also half of a gap block, then all gap blocks, then a part of the fixed
    // fields.
    assert_eq!(blocks(&sack, 4), expected(4, 0, true));
    assert_eq!(blocks(&sack, 6), expected(3, 0, true));
    assert_eq!(blocks(&sack, 4 + 16), expected(0, 0, true));
    assert_eq!(blocks(&sack, 4 + 16 + 1), (vec![], true));
    assert_eq!(blocks(&nr_sack, 4 + 8), expected(4, 2, true));
    assert_eq!(blocks(&nr_sack, 4 + 16 + 12), expected(1, 0, true));
}

#[test]
fn last_chunk_is_known_without_its_payload() {
    let bytes = encoded(&data(1000));
    let chunks = |kept: usize| {
        let captured = parse(&bytes[..kept], bytes.len() as u32).unwrap();
        let Body::Sctp(packet) = captured.packet.body else { panic!("SCTP") };
        let lengths: Vec<_> = packet.chunks.iter().filter_map(Chunk::payload).map(|part| part.len).collect();
        (lengths, captured.is_cut)
    };
    assert_eq!(chunks(bytes.len()), (vec![8, 1000], false));
    assert_eq!(chunks(bytes.len() - 1000), (vec![8, 1000], false));
    assert_eq!(chunks(bytes.len() - 1001), (vec![8], true));
    assert_eq!(chunks(40 + 12), (vec![], true));
}

#[test]
fn ipv6_extension_headers_are_skipped() {
    let mut bytes = encoded(&data(4));
    let len = bytes.len() as u32 + 8;
    bytes.splice(40..40, [bytes[6], 0, 0, 0, 0, 0, 0, 0]);
    bytes[6] = 60;
    bytes[5] += 8;
    assert!(matches!(parse(&bytes, len).unwrap().packet.body, Body::Sctp(_)));
    bytes[6] = 44;
    assert_eq!(parse(&bytes, len).unwrap_err().problem, Problem::Fragment);
    // The header chain refers to itself without an end.
    bytes[6] = 0;
    bytes[40] = 0;
    assert!(parse(&bytes, len).is_err());
}
