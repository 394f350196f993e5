//! Whole packets: checksum, order of chunks, and refusal of malformed ones.

use super::testing::hex;
use super::*;
use crate::Buffer;
use crate::seq::Serial;

fn packet(chunks: Vec<Chunk>) -> Packet {
    Packet {
        source_port: 0x1234,
        destination_port: 9,
        verification_tag: 0x0102_0304,
        chunks: chunks.into(),
        udp: None,
        may_fragment: false,
        zero_checksum: false,
    }
}

fn encode(packet: &Packet) -> Vec<u8> {
    let mut out = Vec::new();
    packet.emit(&mut out);
    assert_eq!(out.len(), packet.wire_len() as usize);
    out
}

fn data(offset: u64, len: u32) -> Chunk {
    Chunk::Data(Data { tsn: Serial(len), payload: Payload::new(offset, len), ..Data::default() })
}

/// RFC 3720 appendix B.4 publishes these; the checksum of RFC 9260 is the same polynomial.
#[test]
fn crc32c_gives_the_published_values() {
    assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c::crc32c(&[0xff; 32]), 0x62a8_ab43);
    let ascending: Vec<u8> = (0..32).collect();
    assert_eq!(crc32c::crc32c(&ascending), 0x46dd_794e);
    let descending: Vec<u8> = (0..32).rev().collect();
    assert_eq!(crc32c::crc32c(&descending), 0x113f_db5c);
}

/// Computes the checksum bit by bit, as RFC 9260 appendix A defines it.
#[test]
fn checksum_equals_the_definition() {
    let bytes = encode(&packet(vec![data(3, 100), Chunk::CookieAck]));
    let mut zeroed = bytes.clone();
    zeroed[8..12].fill(0);
    let mut crc = u32::MAX;
    for byte in &zeroed {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    assert_eq!(bytes[8..12], (!crc).to_le_bytes());
}

#[test]
fn common_header_precedes_chunks_in_order() {
    let packet = packet(vec![Chunk::CookieAck, data(0, 1), Chunk::ShutdownAck]);
    let bytes = encode(&packet);
    assert_eq!(bytes[..8], hex("1234 0009 01020304"));
    assert_eq!(bytes[12..], hex("0b000004 00000011 00000001 00000000 00000000 69000000 08000004"));
    let mut read = Packet::parse(&bytes).unwrap();
    let payload = read.chunks[1].payload_mut().unwrap();
    assert_eq!(Buffer(&bytes).bytes(*payload), [0x69]);
    payload.offset = 0;
    assert_eq!(read, packet);
}

#[test]
fn emit_appends_to_the_buffer() {
    let packet = packet(vec![data(0, 5)]);
    let mut out = vec![1, 2, 3];
    packet.emit(&mut out);
    assert_eq!(out[3..], encode(&packet));
}

#[test]
fn payloads_are_in_order_and_without_padding() {
    let i_data = Chunk::IData(IData { payload: Payload::new(77, 6), ..IData::default() });
    let bytes = encode(&packet(vec![data(10, 3), Chunk::CookieAck, i_data, data(0, 0)]));
    let read = Packet::parse(&bytes).unwrap();
    let payloads: Vec<_> = read.chunks.iter().filter_map(Chunk::payload).collect();
    // Behind the common header of 12 bytes: a DATA header of 16; 4 bytes of data, the COOKIE-ACK and an I-DATA header of
    // 20; 8 of data and a DATA header.
    assert_eq!(payloads, [Payload::new(28, 3), Payload::new(56, 6), Payload::new(80, 0)]);
    for (sent, read) in [Payload::new(10, 3), Payload::new(77, 6), Payload::EMPTY].iter().zip(payloads) {
        assert_eq!(sent.first_difference(Buffer(&bytes).bytes(read)), None);
    }
}

#[test]
fn padding_is_ignored_and_written_as_zero() {
    let canonical = encode(&packet(vec![data(0, 1)]));
    let mut other = canonical.clone();
    other[12 + 17..].fill(0xaa);
    let sum = checksum(&other).to_le_bytes();
    other[8..12].copy_from_slice(&sum);
    let mut read = Packet::parse(&other).unwrap();
    read.chunks[0].payload_mut().unwrap().offset = 0;
    assert_eq!(encode(&read), canonical);
}

#[test]
fn packet_without_chunks_is_parsed() {
    let packet = packet(vec![]);
    assert_eq!(Packet::parse(&encode(&packet)), Ok(packet));
}

#[test]
fn flipped_bit_is_detected() {
    let bytes = encode(&packet(vec![data(0, 40), Chunk::CookieAck]));
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let error = Packet::parse(&flipped).unwrap_err();
        assert!(matches!(error.problem, Problem::Checksum { .. }), "{error}");
    }
}

/// A packet with these chunks and a correct checksum.
fn with_checksum(chunks: &str) -> Vec<u8> {
    let mut bytes = hex(&format!("1234 0009 01020304 00000000 {chunks}"));
    let sum = checksum(&bytes).to_le_bytes();
    bytes[8..12].copy_from_slice(&sum);
    bytes
}

#[test]
fn errors_name_the_chunk_and_the_byte() {
    let error = |chunks: &str| Packet::parse(&with_checksum(chunks)).unwrap_err();
    let cookie = "0b000004";
    assert_eq!(
        error(&format!("{cookie} 07000003")),
        ParseError::new(Header::SctpChunk(7), 18, Problem::Length(3))
    );
    assert_eq!(
        error(&format!("{cookie} 0700000c 01020304 00000000")),
        ParseError::new(Header::SctpChunk(7), 20, Problem::Length(12))
    );
    // An IPv4 address of three bytes, the second parameter of an INIT ACK behind the first chunk.
    assert_eq!(
        error(&format!("{cookie} 02000020 00000001 00000001 0001 0001 00000001 80000004 00050007 010203 00")),
        ParseError::new(Header::SctpParameter(5), 44, Problem::Length(7))
    );
    assert_eq!(
        Packet::parse(&[0; 11]).unwrap_err(),
        ParseError::new(Header::Sctp, 0, Problem::Truncated { needed: 12, available: 11 })
    );
}

/// RFC 9260 §6.10: only an incomplete chunk is dropped.
#[test]
fn partial_chunk_does_not_affect_earlier_ones() {
    let cookie = "0b000004";
    // The header is cut; the value is cut; the padding is missing; the length is larger than the packet.
    for partial in ["0700", "07000008 0102", "fe000005 01", "00000400 00000001 0000 0000 00000000 aa"] {
        let packet = Packet::parse(&with_checksum(&format!("{cookie} {partial}"))).unwrap();
        assert_eq!(packet.chunks, [Chunk::CookieAck], "{partial}");
    }
}

#[test]
#[should_panic(expected = "65,535 bytes")]
fn chunk_beyond_its_length_field_panics() {
    encode(&packet(vec![data(0, 65_520)]));
}

#[test]
fn longest_chunk_is_written() {
    let packet = packet(vec![data(0, 65_519)]);
    let mut read = Packet::parse(&encode(&packet)).unwrap();
    read.chunks[0].payload_mut().unwrap().offset = 0;
    assert_eq!(read, packet);
}

#[test]
fn unfinished_packet_lacks_only_the_checksum() {
    let packet = packet(vec![data(3, 100), Chunk::CookieAck]);
    let (mut finished, mut unfinished) = (encode(&packet), Vec::new());
    packet.emit_unfinished(&mut unfinished, &mut |payload, bytes| payload.fill(bytes));
    finished[8..12].fill(0);
    assert_eq!(unfinished, finished);
    let read = Packet::parse_unverified(&unfinished).expect("a packet");
    assert!(!read.zero_checksum, "the packet does not state that the lower layer detects damage");
    assert_eq!(Ok(read), Packet::parse(&encode(&packet)));
    let short = Packet::parse_unverified(&unfinished[..11]).expect_err("a header has 12 bytes");
    assert_eq!(short.problem, Problem::Truncated { needed: 12, available: 11 });
}

/// RFC 9653 §5: a checksum of zero is accepted; any other wrong one is an error.
#[test]
fn zero_checksum_is_accepted() {
    let chunks = vec![Chunk::ShutdownAck, Chunk::CookieAck];
    let packet = Packet {
        source_port: 1,
        destination_port: 2,
        verification_tag: 3,
        chunks: chunks.into(),
        udp: None,
        may_fragment: false,
        zero_checksum: true,
    };
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    assert_eq!(bytes[8..12], [0; 4]);
    assert_eq!(Packet::parse(&bytes), Ok(packet.clone()));
    bytes[11] = 1;
    assert!(Packet::parse(&bytes).is_err());
    let mut bytes = Vec::new();
    Packet { zero_checksum: false, ..packet.clone() }.emit(&mut bytes);
    assert_eq!(Packet::parse(&bytes), Ok(Packet { zero_checksum: false, ..packet }));
}
