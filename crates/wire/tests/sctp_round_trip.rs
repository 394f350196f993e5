//! SCTP values to bytes and back, and adversarial bytes.

mod sctp_strategies;

use anabranch_wire::sctp::encapsulation::Ports;
use anabranch_wire::sctp::{Chunk, Packet};
use anabranch_wire::{Body, Buffer, Ecn, Payload, Problem};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use sctp_strategies as strategies;

/// The packet's encoding, which has `wire_len()` bytes.
fn encode(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    assert_eq!(bytes.len(), packet.wire_len() as usize);
    assert!(bytes.len().is_multiple_of(4));
    bytes
}

/// Checks that the encoding is parsed as the same packet, with every payload byte at its offset, and is
/// encoded to the same bytes again.
fn round_trips(packet: &Packet) -> Result<(), TestCaseError> {
    let bytes = encode(packet);
    let mut read = Packet::parse(&bytes).expect("a written packet parses");

    let mut again = Vec::new();
    read.emit_with(&mut again, &mut |payload, out| out.copy_from_slice(Buffer(&bytes).bytes(payload)));
    prop_assert_eq!(&again, &bytes);

    let sent: Vec<Payload> = packet.chunks.iter().filter_map(Chunk::payload).collect();
    for (sent, read) in sent.iter().zip(read.chunks.iter_mut().filter_map(Chunk::payload_mut)) {
        prop_assert_eq!(sent.first_difference(Buffer(&bytes).bytes(*read)), None);
        read.offset = sent.offset;
    }
    prop_assert_eq!(&read, packet);
    Ok(())
}

fn packet_with(chunk: Chunk) -> Packet {
    Packet {
        source_port: 1,
        destination_port: 2,
        verification_tag: 3,
        chunks: chunk.into(),
        udp: None,
        may_fragment: false,
        zero_checksum: false,
    }
}

/// Repairs the checksum: the parser's error contains the correct one.
fn repair_checksum(bytes: &mut [u8]) {
    if let Err(anabranch_wire::ParseError { problem: Problem::Checksum { computed, .. }, .. }) =
        Packet::parse(bytes)
    {
        bytes[8..12].copy_from_slice(&computed.to_le_bytes());
    }
}

/// Checks that a parsed packet, once written, is parsed as the same value.
fn is_canonical_when_written(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(mut first) = Packet::parse(bytes) else { return Ok(()) };
    let mut again = Vec::new();
    first.emit_with(&mut again, &mut |payload, out| out.copy_from_slice(Buffer(bytes).bytes(payload)));
    prop_assert!(again.len() <= bytes.len());
    let mut second = Packet::parse(&again).expect("a written packet parses");
    let payloads = first.chunks.iter_mut().filter_map(Chunk::payload_mut);
    for (first, second) in payloads.zip(second.chunks.iter_mut().filter_map(Chunk::payload_mut)) {
        prop_assert_eq!(Buffer(bytes).bytes(*first), Buffer(&again).bytes(*second));
        (first.offset, second.offset) = (0, 0);
    }
    prop_assert_eq!(first, second);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn data_round_trips(data in strategies::data(3_000)) {
        round_trips(&packet_with(Chunk::Data(data)))?;
    }

    #[test]
    fn i_data_round_trips(data in strategies::i_data(3_000)) {
        round_trips(&packet_with(Chunk::IData(data)))?;
    }

    #[test]
    fn init_round_trips(init in strategies::init(), ack in any::<bool>()) {
        round_trips(&packet_with(if ack { Chunk::InitAck(init) } else { Chunk::Init(init) }))?;
    }

    #[test]
    fn sack_round_trips(sack in strategies::sack()) {
        round_trips(&packet_with(Chunk::Sack(sack)))?;
    }

    #[test]
    fn nr_sack_round_trips(nr_sack in strategies::nr_sack()) {
        round_trips(&packet_with(Chunk::NrSack(Box::new(nr_sack))))?;
    }

    #[test]
    fn network_control_round_trips(control in strategies::network_control()) {
        round_trips(&packet_with(Chunk::NetworkControl(Box::new(control))))?;
    }

    #[test]
    fn unknown_chunks_round_trip(unknown in strategies::unknown_chunk()) {
        round_trips(&packet_with(Chunk::Unknown(unknown)))?;
    }

    /// All other chunk types; thousands of cases contain each of them.
    #[test]
    fn other_chunks_round_trip(chunk in prop_oneof![strategies::control(), strategies::first_or_last()]) {
        round_trips(&packet_with(chunk))?;
    }

    #[test]
    fn packets_round_trip(packet in strategies::packet(1_500)) {
        round_trips(&packet)?;
    }

    /// The checking mode agrees, over IPv4 and IPv6.
    #[test]
    fn packets_pass_the_check_plain_and_in_udp(
        sctp in strategies::packet(1_500),
        v6 in any::<bool>(),
        ports in any::<Option<(u16, u16)>>(),
    ) {
        let udp = ports.map(|(source, destination)| Ports { source, destination });
        let sctp = Packet { udp, ..sctp };
        let (source, destination): (IpAddr, IpAddr) = if v6 {
            (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into())
        } else {
            (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into())
        };
        let packet = anabranch_wire::Packet { source, destination, ecn: Ecn::Ect1, body: Body::Sctp(sctp) };
        prop_assert_eq!(anabranch_wire::check(&packet, &mut Vec::new()), Ok(()));
    }

    /// The complete chunks of a truncated packet are parsed, without a panic (RFC 9260 §6.10).
    #[test]
    fn truncated_packets_do_not_panic(packet in strategies::packet(40)) {
        let bytes = encode(&packet);
        let mut ends = vec![12];
        ends.extend(packet.chunks.iter().scan(12, |at, chunk| {
            *at += chunk.wire_len() as usize;
            Some(*at)
        }));
        for len in 0..bytes.len() {
            prop_assert!(Packet::parse(&bytes[..len]).is_err());
            let mut believable = bytes[..len].to_vec();
            repair_checksum(&mut believable);
            let whole = ends.iter().filter(|end| (13..=len).contains(*end)).count();
            let read = Packet::parse(&believable).map(|read| read.chunks.len());
            prop_assert_eq!(read.ok(), (len >= 12).then_some(whole), "cut at {}", len);
        }
    }

    /// A packet with some changed bytes and a correct checksum.
    #[test]
    fn damaged_packets_do_not_panic(packet in strategies::packet(40), damage in proptest::collection::vec(any::<(usize, u8)>(), 1..6)) {
        let mut bytes = encode(&packet);
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        prop_assert!(bytes == encode(&packet) || Packet::parse(&bytes).is_err());
        repair_checksum(&mut bytes);
        is_canonical_when_written(&bytes)?;
    }

    #[test]
    fn random_bytes_do_not_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        is_canonical_when_written(&bytes)?;
        repair_checksum(&mut bytes);
        is_canonical_when_written(&bytes)?;
    }

    /// Random bytes that begin like a chunk of each type, with a length that fits.
    #[test]
    fn random_chunks_do_not_panic(kind in any::<u8>(), mut value in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut bytes = vec![0; 12];
        let length = (4 + value.len()) as u16;
        bytes.extend_from_slice(&[kind, 0]);
        bytes.extend_from_slice(&length.to_be_bytes());
        value.resize(value.len().next_multiple_of(4), 0);
        bytes.extend_from_slice(&value);
        repair_checksum(&mut bytes);
        is_canonical_when_written(&bytes)?;
    }
}
