//! Source routes: bytes at every hop, and invalid options.

use super::*;
use crate::bytes::from_hex as hex;
use crate::ip::option::IpOption;
use crate::packet::{Body, Packet};
use crate::tcp::Segment;
use crate::{Ecn, Payload};

const HOST: [u8; 4] = [10, 0, 0, 1];
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

fn packet(destination: [u8; 4], ip_option: Option<IpOption>) -> Packet {
    let segment = Segment {
        source_port: 1,
        destination_port: 2,
        payload: Payload::new(0, 5),
        ip_option: ip_option.map(Box::new),
        ..Segment::default()
    };
    Packet {
        source: HOST.into(),
        destination: destination.into(),
        ecn: Ecn::NotEct,
        body: Body::Tcp(segment),
    }
}

fn bytes_of(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    assert_eq!(bytes.len() as u32, packet.wire_len());
    bytes
}

/// The packet, with the payload of [`packet`].
fn parsed(bytes: &[u8]) -> Packet {
    let mut packet = Packet::parse(bytes).expect("a packet");
    packet.for_each_payload(|payload| payload.offset = 0);
    packet
}

#[test]
fn hops_rewrite_addresses_and_the_last_removes_option() {
    // Through 10.0.0.9 and 10.0.1.9 to 10.0.2.2. The TCP segment has 25 bytes; header and option have 20 + 12.
    let route = SourceRoute::new(&[[10, 0, 1, 9], [10, 0, 2, 2]].map(Ipv4Addr::from));
    let sent = packet(GATEWAY.octets(), Some(IpOption::SourceRoute(route)));
    let mut bytes = bytes_of(&sent);
    assert_eq!(bytes[..2], hex("48 00"));
    assert_eq!(bytes[2..4], [0, 57]);
    assert_eq!(bytes[12..32], hex("0a000001 0a000009 83 0b 04 0a000109 0a000202 00"));
    assert_eq!(parsed(&bytes), sent);

    // The first hop forwards from 10.0.1.1, which it records; the pointer is 8.
    let by = Ipv4Addr::new(10, 0, 1, 1);
    assert_eq!(SourceRoute::follow_in(&mut bytes, by), 0);
    assert_eq!(bytes[12..32], hex("0a000001 0a000109 83 0b 08 0a000101 0a000202 00"));
    let (to, next) = route.followed(by).expect("a next hop");
    let forwarded = packet(to.octets(), next.map(IpOption::SourceRoute));
    assert_eq!(bytes_of(&forwarded), bytes);
    assert_eq!(parsed(&bytes), forwarded);

    // The second one is the last: the far host gets a plain packet, whose checksum of TCP was right all the time.
    let transport = bytes[32..].to_vec();
    assert_eq!(SourceRoute::follow_in(&mut bytes, Ipv4Addr::new(10, 0, 2, 1)), 12);
    assert_eq!((&bytes[..2], &bytes[2..4]), (&hex("45 00")[..], &[0, 45][..]));
    assert_eq!(bytes[12..20], hex("0a000001 0a000202"));
    assert_eq!(bytes[20..], transport);
    let plain = packet([10, 0, 2, 2], None);
    assert_eq!((parsed(&bytes), bytes_of(&plain)), (plain, bytes));
}

#[test]
fn destination_is_the_last_address() {
    let [near, far] = [[10, 0, 1, 9], [10, 0, 2, 2]].map(Ipv4Addr::from);
    let mut route = SourceRoute::new(&[near, far]);
    assert_eq!((route.progress(), route.destination(GATEWAY)), (Progress::Next(near, 1), far));
    (_, route) = route.followed(GATEWAY).map(|(to, next)| (to, next.unwrap())).unwrap();
    assert_eq!((route.progress(), route.destination(near)), (Progress::Next(far, 0), far));
    assert_eq!(route.followed(GATEWAY), Some((far, None)));
    let complete = SourceRoute::of(&hex("0c 0a000109 0a000202"));
    assert_eq!((complete.progress(), complete.destination(far)), (Progress::Complete, far));
    assert_eq!(complete.followed(GATEWAY), None);
}

#[test]
fn invalid_routes_have_no_next_hop() {
    // No data, no address, three bytes of an address, a pointer before the first address or between two, 255 bytes.
    for options in [
        "83 02 00 00",
        "83 03 04 00",
        "83 06 04 010203 00 00",
        "83 07 00 0a000001 00",
        "83 07 03 0a000001 00",
        "83 07 05 0a000001 00",
        "83 0b 06 0a000001 0a000002 00",
        "83 ff 04 0a000001 00",
        "01 83 ff 0a000001 00 00",
        "83 00 04 0a000001 00",
        "83 01 04 0a000001 00",
        "83",
    ] {
        let options = hex(options);
        let found = SourceRoute::find(&options).expect("an option");
        assert_eq!(found.progress(), Progress::Invalid, "{options:x?}");
        assert_eq!((found.followed(GATEWAY), found.destination(GATEWAY)), (None, GATEWAY));
        let sent = packet([10, 0, 2, 2], Some(IpOption::SourceRoute(found)));
        assert_eq!(parsed(&bytes_of(&sent)), sent, "{options:x?}");
    }
    // Any pointer behind the addresses: the route is complete.
    for pointer in [8, 12, 252] {
        let route = SourceRoute::of(&[pointer, 10, 0, 0, 1]);
        assert_eq!(route.progress(), Progress::Complete, "{pointer}");
    }
    // No option, the end of the list before it, and an option whose length hides it.
    for options in ["", "01 01 01 01", "00 83 07 04", "44 00 83 07"] {
        assert_eq!(SourceRoute::find(&hex(options)), None, "{options}");
    }
}

#[test]
fn other_options_stay_behind_the_last_hop() {
    let route =
        packet(GATEWAY.octets(), Some(IpOption::SourceRoute(SourceRoute::new(&[[10, 0, 2, 2].into()]))));
    let mut bytes = bytes_of(&route);
    // A NOP and a record of the route (RFC 791 §3.1) around the source route.
    bytes.splice(20..28, hex("01 83 07 04 0a000202 07 07 04 00000000 00"));
    bytes[0] = 0x49;
    bytes[3] += 8;
    assert_eq!(SourceRoute::follow_in(&mut bytes, GATEWAY), 8);
    assert_eq!((bytes[0], bytes[3]), (0x47, 20 + 8 + 25));
    assert_eq!(bytes[16..28], hex("0a000202 01 07 07 04 00000000"));
    assert_eq!(parsed(&bytes).wire_len() + 8, bytes.len() as u32);
}

#[test]
fn nine_addresses_fill_the_header() {
    let addresses: Vec<_> = (1..=9).map(|host| Ipv4Addr::new(10, 0, 0, host)).collect();
    let route = SourceRoute::new(&addresses);
    assert_eq!((route.wire_len(), SourceRoute::len_of(9), route.data().len()), (40, 40, 37));
    let sent = packet([10, 0, 9, 9], Some(IpOption::SourceRoute(route)));
    let mut bytes = bytes_of(&sent);
    assert_eq!(parsed(&bytes), sent);
    for (hop, &to) in addresses.iter().enumerate() {
        assert_eq!(SourceRoute::follow_in(&mut bytes, GATEWAY) > 0, hop == 8);
        assert_eq!(Packet::parse(&bytes).map(|packet| packet.destination), Ok(to.into()));
    }
}

#[test]
fn ipv6_has_no_source_route() {
    let route = IpOption::SourceRoute(SourceRoute::new(&[GATEWAY]));
    assert!(route.validate(false).is_err() && route.validate(true).is_ok());
    assert_eq!(SourceRoute::in_packet(&[0x60; 60]), None);
    assert_eq!(SourceRoute::in_packet(&[]), None);
    assert_eq!(SourceRoute::in_packet(&[0x46; 23]), None, "the options are missing");
}
