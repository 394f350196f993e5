//! Headers byte by byte, and the refusal of malformed ones.

use super::*;
use crate::error::{Header, ParseError, Problem};
use crate::{Body, Ecn, Packet, Payload, udp};
use core::net::Ipv4Addr;

/// The common example of an IPv4 header: its checksum is 0xb861.
const V4: [u8; 20] = [
    0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
    0xa8, 0x00, 0xc7,
];

fn v4_with_payload() -> Vec<u8> {
    let mut bytes = V4.to_vec();
    bytes.resize(0x73, 0);
    bytes
}

#[test]
fn ipv4_header_equals_bytes_computed_by_hand() {
    let header =
        ipv4::Header::new(Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::new(192, 168, 0, 199), protocol::UDP, 95);
    let mut out = Vec::new();
    header.emit(&mut out);
    assert_eq!(out, V4);
    assert_eq!(ipv4::Header::parse(&v4_with_payload()), Ok((header, 20)));
}

#[test]
fn ipv4_keeps_every_field() {
    let header = ipv4::Header {
        dscp: 0x2e,
        ecn: Ecn::Ce,
        identification: 0xabcd,
        dont_fragment: false,
        ttl: 3,
        ..ipv4::Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, protocol::TCP, 0)
    };
    let mut out = Vec::new();
    header.emit(&mut out);
    assert_eq!(out[1], 0xbb);
    assert_eq!(ipv4::Header::parse(&out), Ok((header, 20)));
}

#[test]
fn ipv4_options_and_link_padding_are_skipped() {
    let packet = Packet {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        ecn: Ecn::Ect0,
        body: Body::Udp(udp::Datagram { source_port: 1, destination_port: 2, payload: Payload::new(0, 5) }),
    };
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    // A router alert (RFC 2113), and the padding of a short Ethernet frame.
    bytes.splice(20..20, [0x94, 0x04, 0, 0]);
    bytes[0] = 0x46;
    bytes[3] += 4;
    ipv4::set_checksum(&mut bytes);
    bytes.extend_from_slice(&[0; 9]);
    let mut parsed = Packet::parse(&bytes).expect("a valid packet");
    parsed.for_each_payload(|payload| {
        assert_eq!(*payload, Payload::new(20 + 4 + 8, 5));
        payload.offset = 0;
    });
    assert_eq!(parsed, packet);
}

#[test]
fn ipv6_header_equals_bytes_computed_by_hand() {
    let source = "2001:db8::1".parse().unwrap();
    let destination = "2001:db8::2".parse().unwrap();
    let header = ipv6::Header {
        dscp: 0x2e,
        ecn: Ecn::Ect1,
        flow_label: 0x12345,
        ..ipv6::Header::new(source, destination, protocol::TCP, 0)
    };
    let mut out = Vec::new();
    header.emit(&mut out);
    assert_eq!(out[..8], [0x6b, 0x91, 0x23, 0x45, 0, 0, 6, 64]);
    assert_eq!((&out[8..24], &out[24..]), (&source.octets()[..], &destination.octets()[..]));
    assert_eq!(ipv6::Header::parse(&out), Ok(header));
}

#[test]
fn malformed_headers_are_refused() {
    let fails = |change: &dyn Fn(&mut Vec<u8>), header, at, problem: Problem| {
        let mut bytes = v4_with_payload();
        change(&mut bytes);
        assert_eq!(Packet::parse(&bytes), Err(ParseError::new(header, at, problem)));
    };
    fails(&Vec::clear, Header::Ip, 0, Problem::Truncated { needed: 1, available: 0 });
    fails(&|bytes| bytes[0] = 0x55, Header::Ip, 0, Problem::Version(5));
    fails(&|bytes| bytes[0] = 0x44, Header::Ipv4, 0, Problem::Length(16));
    fails(&|bytes| bytes.truncate(19), Header::Ipv4, 0, Problem::Truncated { needed: 20, available: 19 });
    fails(&|bytes| bytes[3] = 19, Header::Ipv4, 2, Problem::Length(19));
    fails(&|bytes| bytes[3] = 0x74, Header::Ipv4, 2, Problem::Truncated { needed: 116, available: 115 });
    let checksum = Problem::Checksum { found: 0xb861, computed: 0xb862 };
    fails(&|bytes| bytes[19] = 0xc6, Header::Ipv4, 10, checksum);
    // The first fragment and a later one, each with a correct checksum.
    fails(&|bytes| (bytes[6], bytes[10]) = (0x60, 0x98), Header::Ipv4, 6, Problem::Fragment);
    fails(&|bytes| (bytes[7], bytes[11]) = (1, 0x60), Header::Ipv4, 6, Problem::Fragment);
    // IGMP, and the ICMP protocol of the other family.
    fails(&|bytes| (bytes[9], bytes[11]) = (2, 0x70), Header::Ipv4, 9, Problem::Protocol(2));
    fails(&|bytes| (bytes[9], bytes[11]) = (58, 0x38), Header::Ipv4, 9, Problem::Protocol(58));
}

#[test]
fn ipv6_extension_headers_are_refused() {
    let mut bytes = Vec::new();
    // Routing, fragment, authentication, destination options.
    for next_header in [43, 44, 51, 60] {
        bytes.clear();
        let (source, destination) = ("::1".parse().unwrap(), "::2".parse().unwrap());
        ipv6::Header::new(source, destination, next_header, 8).emit(&mut bytes);
        bytes.extend_from_slice(&[6, 0, 0, 0, 0, 0, 0, 0]);
        let expected = ParseError::new(Header::Ipv6, 6, Problem::Protocol(next_header));
        assert_eq!(Packet::parse(&bytes), Err(expected));
    }
    bytes.pop();
    let expected = Problem::Truncated { needed: 48, available: 47 };
    assert_eq!(Packet::parse(&bytes), Err(ParseError::new(Header::Ipv6, 4, expected)));
}

#[test]
fn hop_by_hop_options_precede_the_transport() {
    let [source, destination] = ["::1", "::2"].map(|text| text.parse().expect("an address"));
    // Next header TCP, 8 bytes, PadN of 6 bytes.
    let options = [6, 0, 1, 4, 0, 0, 0, 0];
    let segment = crate::tcp::Segment { source_port: 7, ..Default::default() };
    let body = Body::Tcp(segment);
    let packet = Packet { source, destination, ecn: Ecn::NotEct, body };
    let parsed = |options: &[u8]| {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        bytes.splice(40..40, options.iter().copied());
        (bytes[5], bytes[6]) = (20 + 8, 0);
        Packet::parse(&bytes).map(|mut packet| {
            packet.for_each_payload(|payload| payload.offset = 0);
            packet
        })
    };
    assert_eq!(parsed(&options), Ok(packet.clone()));
    // Longer than the packet; again hop-by-hop options; an unknown option that makes hosts discard the packet.
    for (at, value, error) in [
        (1, 3, ParseError::new(Header::Ipv6, 6, Problem::Protocol(0))),
        (0, 0, ParseError::new(Header::Ipv6, 6, Problem::Protocol(0))),
        (2, 0x41, ParseError::new(Header::Ipv6, 42, Problem::Value(0x41))),
    ] {
        let mut changed = options;
        changed[at] = value;
        assert_eq!(parsed(&changed), Err(error), "byte {at}");
    }
}

#[test]
fn udp_lengths_and_zero_checksums_are_checked() {
    let datagram = udp::Datagram { source_port: 7, destination_port: 9, payload: Payload::new(0, 2) };
    let v4 = Addresses { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let v6 = Addresses { source: "::1".parse().unwrap(), destination: "::2".parse().unwrap() };
    let mut bytes = Vec::new();
    datagram.emit_with(v4, &mut bytes, |payload| payload.copy_from_slice(b"hi"));
    // By hand: 0a00 0001 0a00 0002 0011 000a, then 0007 0009 000a 6869.
    assert_eq!(bytes, [0, 7, 0, 9, 0, 10, 0x83, 0x5e, b'h', b'i']);
    let read = udp::Datagram { payload: Payload::new(8, 2), ..datagram };
    assert_eq!(udp::Datagram::parse(&bytes, v4), Ok(read));

    bytes[6..8].fill(0);
    assert_eq!(udp::Datagram::parse(&bytes, v4), Ok(read));
    let error = udp::Datagram::parse(&bytes, v6).expect_err("IPv6 requires a checksum");
    assert!(matches!(error, ParseError { at: 6, problem: Problem::Checksum { found: 0, .. }, .. }));
    bytes[5] = 7;
    assert_eq!(udp::Datagram::parse(&bytes, v4), Err(ParseError::new(Header::Udp, 4, Problem::Length(7))));
    bytes[5] = 11;
    let problem = Problem::Truncated { needed: 11, available: 10 };
    assert_eq!(udp::Datagram::parse(&bytes, v4), Err(ParseError::new(Header::Udp, 4, problem)));
}

#[test]
fn errors_read_as_sentences() {
    let error = ParseError::new(Header::Tcp, 36, Problem::Checksum { found: 1, computed: 0xbeef });
    assert_eq!(error.to_string(), "TCP header at byte 36: checksum is 0x0001 but should be 0xbeef");
    let error = ParseError::new(Header::Mptcp(2), 41, Problem::Length(7));
    assert_eq!(error.to_string(), "MPTCP option of subtype 2 at byte 41: impossible length 7");
}
