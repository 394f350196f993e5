//! Messages byte by byte, and the fields of quotes.

use super::*;
use crate::bytes::from_hex;
use crate::error::{EncodeError, Header, ParseError, Problem};
use crate::ip::{Addresses, protocol};
use crate::sctp::encapsulation::Ports;
use crate::{Body, Ecn, Packet, Payload, sctp, tcp, udp};

fn packet(v4: bool, body: Body) -> Packet {
    let (source, destination) = if v4 {
        ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    } else {
        ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap())
    };
    Packet { source, destination, ecn: Ecn::NotEct, body }
}

fn segment() -> Body {
    Body::Tcp(tcp::Segment {
        source_port: 40_000,
        destination_port: 5_001,
        seq: crate::seq::Serial(0x0102_0304),
        payload: Payload::new(0, 1_460),
        ..tcp::Segment::default()
    })
}

fn association(udp: Option<Ports>) -> Body {
    Body::Sctp(sctp::Packet {
        source_port: 40_000,
        destination_port: 5_001,
        verification_tag: 0xcafe_babe,
        chunks: sctp::Chunks::new(),
        udp,
        may_fragment: false,
        zero_checksum: false,
    })
}

/// The error message that the destination of a packet sends back.
fn answer(to: &Packet, message: Message) -> Packet {
    let body = Body::Icmp(Box::new(message));
    Packet { source: to.destination, destination: to.source, ecn: Ecn::NotEct, body }
}

#[test]
fn fragmentation_needed_equals_bytes_by_hand() {
    let lost = packet(true, segment());
    let error = answer(&lost, Message::PacketTooBig { mtu: 1_280, quote: Quote::of(&lost) });
    let mut bytes = Vec::new();
    error.emit(&mut bytes);
    // Type 3, code 4. The words are 0304 0000 0500, the quoted header (whose own sum is ffff), 9c40 1389 0102 0304:
    // 0304 + 0500 + ffff + 9c40 + 1389 + 0102 + 0304 = 1bbd2, folded bbd3, of which the complement is 442c.
    let expected = "0304 442c 0000 0500
        4500 05dc 0000 4000 4006 211a 0a00 0001 0a00 0002  9c40 1389 0102 0304";
    assert_eq!(bytes[20..], from_hex(expected));
    assert_eq!((bytes[9], bytes.len() as u32), (protocol::ICMP, error.wire_len()));
    assert_eq!(Packet::parse(&bytes).unwrap(), error);
}

#[test]
fn quote_gives_addresses_ports_and_number() {
    for v4 in [true, false] {
        let lost = packet(v4, segment());
        let quoted = Quote::of(&lost).parse().unwrap();
        assert_eq!((quoted.source.ip(), quoted.destination.ip()), (lost.source, lost.destination));
        assert_eq!((quoted.source.port(), quoted.destination.port()), (40_000, 5_001));
        assert_eq!((quoted.protocol, quoted.number), (protocol::TCP, 0x0102_0304));

        let quoted = Quote::of(&packet(v4, association(None))).parse().unwrap();
        assert_eq!((quoted.protocol, quoted.number), (protocol::SCTP, 0xcafe_babe));

        let quote = Quote::of(&packet(v4, association(Some(Ports { source: 7, destination: 9_899 }))));
        let outer = quote.parse().unwrap();
        assert_eq!((outer.protocol, outer.source.port(), outer.number), (protocol::UDP, 7, 20 << 16));
        let inner = quote.parse_encapsulated().unwrap();
        assert_eq!(
            (inner.protocol, inner.source.port(), inner.number),
            (protocol::SCTP, 40_000, 0xcafe_babe)
        );

        let datagram = udp::Datagram { source_port: 1, destination_port: 2, payload: Payload::new(0, 30) };
        let quoted = Quote::of(&packet(v4, Body::Udp(datagram))).parse().unwrap();
        assert_eq!((quoted.destination.port(), quoted.number), (2, 38 << 16));
    }
}

#[test]
fn incomplete_quotes_are_not_parsed() {
    let whole = Quote::of(&packet(true, segment()));
    for len in 0..whole.bytes().len() {
        assert_eq!(Quote::from_bytes(&whole.bytes()[..len]).parse(), None, "{len} bytes");
    }
    let with = |at: usize, byte| {
        let mut bytes = whole.bytes().to_vec();
        bytes[at] = byte;
        Quote::from_bytes(&bytes).parse()
    };
    assert_eq!(with(7, 1), None, "a later fragment has no ports");
    assert_eq!(with(9, protocol::ICMP), None);
    assert_eq!(with(0, 0x55), None);
    assert!(with(6, 0x20).is_some(), "a first fragment has the ports");
    assert!(with(8, 3).is_some(), "routers decrement the hop limit");
    assert_eq!(whole.parse_encapsulated(), None);
}

#[test]
fn options_of_the_quoted_header_are_skipped() {
    let mut bytes = Quote::of(&packet(true, segment())).bytes().to_vec();
    bytes[0] = 0x46;
    bytes.splice(20..20, [0x94, 0x04, 0, 0]);
    assert_eq!(Quote::from_bytes(&bytes).parse().map(|quoted| quoted.number), Some(0x0102_0304));
}

#[test]
fn every_message_round_trips_in_both_families() {
    let echo = || Echo { identifier: 0x1234, sequence: 7, data: b"abc".to_vec() };
    for v4 in [true, false] {
        let lost = packet(v4, segment());
        let quote = Quote::of(&lost);
        let unreachable = |what| Message::Unreachable { what, quote: quote.clone() };
        // The type and code of each message, IPv4 first.
        let cases = [
            (unreachable(Unreachable::Network), [(3, 0), (1, 0)]),
            (unreachable(Unreachable::Host), [(3, 1), (1, 3)]),
            (unreachable(Unreachable::Protocol), [(3, 2), (4, 1)]),
            (unreachable(Unreachable::Port), [(3, 3), (1, 4)]),
            (unreachable(Unreachable::Prohibited), [(3, 13), (1, 1)]),
            (unreachable(Unreachable::Other(6)), [(3, 6), (1, 6)]),
            (Message::PacketTooBig { mtu: 1_400, quote: quote.clone() }, [(3, 4), (2, 0)]),
            (Message::TimeExceeded { reassembly: false, quote: quote.clone() }, [(11, 0), (3, 0)]),
            (Message::TimeExceeded { reassembly: true, quote: quote.clone() }, [(11, 1), (3, 1)]),
            (Message::EchoRequest(echo()), [(8, 0), (128, 0)]),
            (Message::EchoReply(echo()), [(0, 0), (129, 0)]),
        ];
        for (message, codes) in cases {
            let packet = answer(&lost, message);
            let mut bytes = Vec::new();
            assert_eq!(crate::check(&packet, &mut bytes), Ok(()));
            let at = if v4 { 20 } else { 40 };
            assert_eq!((bytes[at], bytes[at + 1]), codes[usize::from(!v4)], "{packet:?}");
        }
    }
}

#[test]
fn malformed_messages_are_refused() {
    let lost = packet(true, segment());
    let addresses = Addresses { source: lost.destination, destination: lost.source };
    let mut bytes = Vec::new();
    Message::EchoRequest(Echo::default()).emit(addresses, &mut bytes);
    assert_eq!(bytes, [8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    bytes[5] = 1;
    let problem = Problem::Checksum { found: 0xf7ff, computed: 0xf7fe };
    assert_eq!(Message::parse(&bytes, addresses), Err(ParseError::new(Header::Icmpv4, 2, problem)));
    // A redirect, which this crate does not support.
    let redirect = [5, 0, 0xfa, 0xff, 0, 0, 0, 0];
    let expected = ParseError::new(Header::Icmpv4, 0, Problem::Protocol(5));
    assert_eq!(Message::parse(&redirect, addresses), Err(expected));
    let problem = Problem::Truncated { needed: 4, available: 3 };
    assert_eq!(Message::parse(&redirect[..7], addresses), Err(ParseError::new(Header::Icmpv4, 4, problem)));

    let quote = || Quote::of(&lost);
    let invalid = |message| matches!(answer(&lost, message).validate(), Err(EncodeError::Value(_)));
    assert!(invalid(Message::PacketTooBig { mtu: 65_536, quote: quote() }));
    assert!(invalid(Message::Unreachable { what: Unreachable::Other(3), quote: quote() }));
    assert!(invalid(Message::Unreachable { what: Unreachable::Other(4), quote: quote() }));
}

#[test]
fn group_addresses_get_no_errors() {
    for (address, may) in [
        ("10.0.0.1", true),
        ("0.0.0.0", false),
        ("255.255.255.255", false),
        ("224.0.0.1", false),
        ("2001:db8::1", true),
        ("::", false),
        ("ff02::1", false),
    ] {
        assert_eq!(may_be_answered(address.parse().unwrap()), may, "{address}");
    }
}

#[test]
fn quote_with_source_equals_quote_of_such_a_packet() {
    for v4 in [true, false] {
        let mut sent = packet(v4, segment());
        let quote = Quote::of(&sent);
        let (source, destination) = (sent.source, sent.destination);
        let elsewhere = if v4 { "10.0.0.77".parse().unwrap() } else { "2001:db8::77".parse().unwrap() };
        sent.source = elsewhere;
        let Body::Tcp(segment) = &mut sent.body else { panic!("{sent:?}") };
        segment.source_port = 7;
        let moved = quote.with_source((elsewhere, 7).into());
        assert_eq!(moved, Some(Quote::of(&sent)), "the quoted header's checksum is correct, too");
        sent.source = source;
        sent.destination = elsewhere;
        let Body::Tcp(segment) = &mut sent.body else { panic!("{sent:?}") };
        (segment.source_port, segment.destination_port) = (40_000, 9);
        assert_eq!(quote.with_destination((elsewhere, 9).into()), Some(Quote::of(&sent)));
        let other = if v4 { "2001:db8::1".parse().unwrap() } else { "10.0.0.1".parse().unwrap() };
        assert_eq!(quote.with_source(std::net::SocketAddr::new(other, 1)), None);
        assert_eq!(Quote::from_bytes(&quote.bytes()[..8]).with_destination((destination, 1).into()), None);
    }
}
