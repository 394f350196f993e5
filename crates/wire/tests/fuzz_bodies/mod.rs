//! The bodies of the fuzz targets, as plain functions: the targets under `fuzz/` call them, and so does a
//! test that runs on any toolchain and keeps them working.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this module")]

use anabranch_wire::gre::Gre;
use anabranch_wire::ip::network_option::NetworkOption;
use anabranch_wire::ip::option::IpOption;
use anabranch_wire::ip::source_route::{Progress, SourceRoute};
use anabranch_wire::ip::{Addresses, ipv6, protocol};
use anabranch_wire::tcp::{Options, mptcp};
use anabranch_wire::{Body, Buffer, Packet, sctp};

/// A packet: if the input parses, it is written, read and written again without change. Random bytes hardly
/// ever have a correct checksum, so they are tried unchanged and with repaired checksums. Returns whether
/// anything parsed, so that a caller can check that its inputs are effective.
pub fn packet(data: &[u8]) -> bool {
    let as_is = packet_as_is(data);
    let mut repaired = data.to_vec();
    repair_checksums(&mut repaired);
    packet_as_is(&repaired) || as_is
}

fn packet_as_is(data: &[u8]) -> bool {
    let Ok(mut first) = Packet::parse(data) else { return false };
    let mut bytes = Vec::new();
    first.emit_with(&mut bytes, |payload, out| out.copy_from_slice(Buffer(data).bytes(payload)));
    assert_eq!(bytes.len(), first.wire_len() as usize, "{first:?}");

    let mut second = Packet::parse(&bytes).expect("a written packet parses");
    assert_eq!(payloads(&mut first, data), payloads(&mut second, &bytes));
    assert_eq!(first, second);
    anabranch_wire::check(&first, &mut bytes).expect("a parsed packet passes the check");
    true
}

/// The bytes of a parsed packet's payloads. The payload offsets are set to zero, since headers may have
/// changed in length.
fn payloads<'a>(packet: &mut Packet, parsed_from: &'a [u8]) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    packet.for_each_payload(|payload| {
        found.push(Buffer(parsed_from).bytes(*payload));
        payload.offset = 0;
    });
    found
}

/// TCP options: the input is the option space.
pub fn tcp_options(data: &[u8]) -> bool {
    let Ok(first) = Options::parse(data) else { return false };
    if data.len() > Options::MAX_LEN as usize {
        // Longer than a header allows; reading it must not panic, but it cannot be written.
        return false;
    }
    let len = first.wire_len();
    assert!(len <= Options::MAX_LEN && len.is_multiple_of(4), "{len} bytes for {first:?}");
    let mut bytes = Vec::new();
    first.emit(&mut bytes);
    assert_eq!(bytes.len(), len as usize, "{first:?}");
    assert_eq!(Options::parse(&bytes).expect("written options parse"), first);
    true
}

/// One Multipath TCP option: the first byte contains the subtype and the bits next to it, followed by the
/// rest.
pub fn mptcp_option(data: &[u8]) -> bool {
    let data = &data[..data.len().min(38)];
    let mut option = vec![mptcp::KIND, 2 + data.len() as u8];
    option.extend_from_slice(data);
    tcp_options(&option)
}

/// A packet of GRE: a header that parses is written without its checksum and read again.
pub fn gre(data: &[u8]) -> bool {
    let Ok((first, payload)) = Gre::parse(data) else { return false };
    let mut bytes = Vec::new();
    first.emit(&mut bytes);
    assert_eq!(bytes.len(), first.wire_len() as usize, "{first:?}");
    bytes.extend_from_slice(payload);
    assert_eq!(Gre::parse(&bytes).expect("a written header parses"), (first, payload));
    true
}

/// An SCTP packet behind a valid IPv4 header.
pub fn sctp(data: &[u8]) -> bool {
    let _ = sctp::Packet::parse(data);
    let mut bytes = Vec::new();
    let payload_len = data.len().min(60_000);
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    anabranch_wire::ip::ipv4::Header::new(source, destination, protocol::SCTP, payload_len as u16)
        .emit(&mut bytes);
    bytes.extend_from_slice(&data[..payload_len]);
    packet(&bytes)
}

/// A network control chunk: the input is the rest of an SCTP packet, from the chunk's flags on. A router's
/// change of a valid request leaves a packet that parses, of the same length.
pub fn network_control(data: &[u8]) -> bool {
    let mut bytes = vec![0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, sctp::kind::NETWORK_CONTROL];
    bytes.extend_from_slice(&data[..data.len().min(1_500)]);
    repair_transport(
        &mut bytes,
        protocol::SCTP,
        Addresses { source: [0; 4].into(), destination: [0; 4].into() },
    );
    sctp(&bytes);
    let Some(mut request) = sctp::NetworkControl::requested_in(&bytes) else { return false };
    let len = bytes.len();
    request.push(sctp::network_control::Record { router: 1, ..Default::default() });
    request.clone().replace_in(&mut bytes);
    assert_eq!(bytes.len(), len);
    assert_eq!(sctp::NetworkControl::requested_in(&bytes), Some(request));
    true
}

/// A network control option: the first byte selects the version of IP, and the rest are the options of the header of
/// a packet with a TCP segment. A router's change of a valid request leaves a packet that parses, of the same length.
pub fn network_option(data: &[u8]) -> bool {
    let Some((&first, options)) = data.split_first() else { return false };
    let mut bytes = if first & 1 == 0 {
        let options = &options[..options.len().min(40) / 4 * 4];
        let mut bytes = vec![0x40 | (5 + options.len() / 4) as u8; 1];
        bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 64, protocol::TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend_from_slice(options);
        bytes
    } else {
        // Two bytes precede the options in a header of whole groups of eight bytes.
        let len = (options.len().min(300) + 2) / 8 * 8;
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, ipv6::HOP_BY_HOP, 64];
        bytes.resize(40, 1);
        if len > 0 {
            bytes.extend_from_slice(&[protocol::TCP, (len / 8 - 1) as u8]);
            bytes.extend_from_slice(&options[..len - 2]);
        }
        bytes
    };
    bytes.extend_from_slice(&[0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0, 7]);
    repair_checksums(&mut bytes);
    packet(&bytes);
    let Some(request) = NetworkOption::requested_in(&bytes) else { return false };
    let len = bytes.len();
    NetworkOption::mark_shared(&mut bytes);
    assert_eq!(bytes.len(), len);
    let marked = sctp::NetworkControl { is_shared: true, ..request };
    assert_eq!(NetworkOption::requested_in(&bytes), Some(marked.clone()));
    // An unknown option of IPv6 may make hosts discard the packet.
    if let Ok(packet) = Packet::parse(&bytes) {
        let Body::Tcp(segment) = packet.body else { panic!("a TCP segment") };
        let found = segment.ip_option.as_deref();
        let is_routed = matches!(found, Some(IpOption::SourceRoute(_)));
        assert!(is_routed || found == Some(&IpOption::NetworkControl(NetworkOption::Request(marked))));
    }
    true
}

/// The options of an IPv4 header with a TCP segment. If they contain a source route, hops follow it to its end: bytes and
/// values remain equal, and each packet parses. Returns whether there was a next hop.
pub fn source_route(data: &[u8]) -> bool {
    let options = &data[..data.len().min(40) / 4 * 4];
    let mut bytes = vec![0x40 | (5 + options.len() / 4) as u8; 1];
    bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 64, protocol::TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend_from_slice(options);
    bytes.extend_from_slice(&[0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0, 7]);
    repair_checksums(&mut bytes);
    packet(&bytes);
    let mut hops = 0;
    while let Some(route) = SourceRoute::in_packet(&bytes) {
        let parsed = Packet::parse(&bytes).expect("the checksums are correct");
        let Body::Tcp(segment) = parsed.body else { panic!("a TCP segment") };
        assert_eq!(segment.ip_option.as_deref(), Some(&IpOption::SourceRoute(route)));
        let by = [10, 0, 0, 3].into();
        let Some((to, next)) = route.followed(by) else {
            assert!(matches!(route.progress(), Progress::Complete | Progress::Invalid));
            break;
        };
        hops += 1;
        let len = bytes.len();
        let lost = SourceRoute::follow_in(&mut bytes, by);
        assert_eq!((bytes.len() + lost, lost > 0), (len, next.is_none()));
        assert_eq!(bytes[16..20], to.octets());
        if next.is_none() {
            // A second source route may follow the first; its destination is another one.
            assert!(SourceRoute::in_packet(&bytes).is_some() || Packet::parse(&bytes).is_ok());
            break;
        }
        assert_eq!(SourceRoute::in_packet(&bytes), next);
    }
    hops > 0
}

/// Repairs all checksums and the IPv4 total length.
pub fn repair_checksums(bytes: &mut [u8]) {
    let (body_at, protocol, addresses) = match bytes.first().map(|first| first >> 4) {
        Some(4) if bytes.len() >= 20 => {
            let header_len = usize::from(bytes[0] & 15) * 4;
            if header_len < 20 || header_len > bytes.len() || bytes.len() > 65_535 {
                return;
            }
            let len = (bytes.len() as u16).to_be_bytes();
            bytes[2..4].copy_from_slice(&len);
            bytes[10..12].fill(0);
            let sum = anabranch_wire::Checksum::new().bytes(&bytes[..header_len]).finish();
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            let address = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).expect("four bytes");
            let route = SourceRoute::in_packet(bytes);
            let header = address(16).into();
            let destination = route.map_or(header, |route| route.destination(header)).into();
            let addresses = Addresses { source: address(12).into(), destination };
            (header_len, bytes[9], addresses)
        }
        Some(6) if bytes.len() >= 40 && bytes.len() <= 65_575 => {
            let len = (bytes.len() as u16 - 40).to_be_bytes();
            bytes[4..6].copy_from_slice(&len);
            let address = |at: usize| <[u8; 16]>::try_from(&bytes[at..at + 16]).expect("sixteen bytes");
            let addresses = Addresses { source: address(8).into(), destination: address(24).into() };
            let (protocol, header_len) = ipv6::upper_layer(bytes);
            (header_len, protocol, addresses)
        }
        _ => return,
    };
    repair_transport(&mut bytes[body_at..], protocol, addresses);
}

fn repair_transport(body: &mut [u8], protocol: u8, addresses: Addresses) {
    let len = body.len() as u32;
    let at = match protocol {
        protocol::TCP if len >= 20 => 16,
        protocol::UDP if len >= 8 => {
            body[4..6].copy_from_slice(&(len as u16).to_be_bytes());
            6
        }
        protocol::ICMP if len >= 8 => {
            body[2..4].fill(0);
            let sum = anabranch_wire::Checksum::new().bytes(body).finish();
            body[2..4].copy_from_slice(&sum.to_be_bytes());
            return;
        }
        protocol::ICMPV6 if len >= 8 => 2,
        protocol::SCTP if len >= 12 => {
            // Parsing a wrong checksum returns an error that contains the correct one.
            body[8..12].fill(0);
            if let Err(anabranch_wire::ParseError {
                problem: anabranch_wire::Problem::Checksum { computed, .. },
                ..
            }) = sctp::Packet::parse(body)
            {
                body[8..12].copy_from_slice(&computed.to_le_bytes());
            }
            return;
        }
        _ => return,
    };
    body[at..at + 2].fill(0);
    let sum = addresses.pseudo_header(protocol, len).bytes(body).finish();
    body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
