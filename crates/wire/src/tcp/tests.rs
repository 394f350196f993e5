//! Options and segments to and from the bytes of their diagrams.

use super::*;
use crate::bytes::from_hex as bytes;
use crate::error::{Header, ParseError, Problem};
use crate::ip::Addresses;
use crate::tcp::mptcp::{AddAddress, Control, DataNumber, Dss, Mapping};

#[track_caller]
fn both_ways(options: &Options, hex: &str) {
    let mut out = Vec::new();
    options.emit(&mut out);
    assert_eq!(out, bytes(hex), "{options:?}");
    assert_eq!(options.wire_len() as usize, out.len());
    assert_eq!(Options::parse(&out).as_ref(), Ok(options));
}

const STAMPS: Option<Timestamps> = Some(Timestamps { value: 0x0102_0304, echo: 0x0506_0708 });

fn blocks(count: u32) -> SackBlocks {
    let mut sack = SackBlocks::default();
    for block in 0..count {
        assert!(sack.push(Serial(block * 2), Serial(block * 2 + 1)));
    }
    sack
}

#[test]
fn each_option_round_trips_alone() {
    let none = Options::default();
    both_ways(&none, "");
    both_ways(&Options { mss: Some(1460), ..none.clone() }, "02 04 05b4");
    both_ways(&Options { window_scale: Some(7), ..none.clone() }, "01 03 03 07");
    both_ways(&Options { sack_permitted: true, ..none.clone() }, "01 01 04 02");
    both_ways(&Options { timestamps: STAMPS, ..none.clone() }, "01 01 08 0a 01020304 05060708");
    both_ways(&Options { sack: blocks(1), ..none.clone() }, "01 01 05 0a 00000000 00000001");
    both_ways(&Options { sack: blocks(2), ..none }, "01 01 05 12 00000000 00000001 00000002 00000003");
}

#[test]
fn options_of_syn_have_20_bytes_and_of_data_12() {
    let syn = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: STAMPS,
        ..Options::default()
    };
    both_ways(&syn, "02 04 05b4 04 02 08 0a 01020304 05060708 01 03 03 07");
    let data = Options { timestamps: STAMPS, ..Options::default() };
    assert_eq!(data.wire_len(), 12);
    let segment = Segment { options: data, payload: Payload::new(0, 1448), ..Segment::default() };
    assert_eq!((segment.header_len(), segment.wire_len()), (32, 1480));
}

/// The number of SACK blocks that can be added in the aligned layout.
fn room(options: &Options) -> u32 {
    let fits = |count: &u32| {
        let more = Options { sack: blocks(*count), ..options.clone() };
        more.aligned_len() <= Options::MAX_LEN
    };
    let now = options.sack.count();
    (now..=SackBlocks::MAX as u32).rev().find(fits).expect("the present options fit") - now
}

#[test]
fn option_space_limits_sack_blocks() {
    let mut options = Options::default();
    assert_eq!(room(&options), 4);
    options.timestamps = STAMPS;
    assert_eq!(room(&options), 3);
    options.sack = blocks(2);
    assert_eq!(room(&options), 1);
    options.sack = blocks(3);
    assert_eq!((room(&options), options.wire_len()), (0, 40));

    // A DATA_ACK of eight bytes and timestamps leave room for one block.
    options.sack = blocks(0);
    options.mptcp.dss = Some(Dss { data_ack: Some(DataNumber::Long(1)), ..Dss::default() });
    assert_eq!(room(&options), 1);
    options.mptcp.dss = Some(Dss { data_ack: Some(DataNumber::Short(1)), ..Dss::default() });
    assert_eq!(room(&options), 2);
    let mapping = Mapping { dsn: DataNumber::Long(1), subflow_seq: 1, len: 1, checksum: None };
    options.mptcp.dss =
        Some(Dss { data_ack: Some(DataNumber::Long(1)), mapping: Some(mapping), data_fin: false });
    assert_eq!((room(&options), options.wire_len()), (0, 40));
}

#[test]
fn options_without_room_for_padding_are_dense() {
    let add = AddAddress {
        address_id: 1,
        address: core::net::Ipv6Addr::LOCALHOST.into(),
        port: Some(2),
        hmac: Some(3),
    };
    let mptcp = mptcp::Options { dss: None, others: vec![Control::AddAddress(add)] }.into();
    let options = Options { timestamps: STAMPS, mptcp, ..Options::default() };
    both_ways(
        &options,
        "08 0a 01020304 05060708
         1e 1e 30 01 00000000000000000000000000000001 0002 0000000000000003",
    );
    assert_eq!(options.wire_len(), 40);
}

#[test]
fn other_orders_and_paddings_are_read() {
    let expected = Options {
        mss: Some(1000),
        window_scale: Some(2),
        sack_permitted: true,
        timestamps: STAMPS,
        ..Options::default()
    };
    let parsed = Options::parse(&bytes("03 03 02 04 02 01 08 0a 01020304 05060708 02 04 03e8 00 ff ff"));
    assert_eq!(parsed, Ok(expected));
    // An unknown kind (TCP Fast Open) is skipped; the last MSS is used; the SACK blocks of both options are used.
    let parsed = Options::parse(&bytes("22 04 dead 02 04 0001 02 04 0002")).unwrap();
    assert_eq!(parsed, Options { mss: Some(2), ..Options::default() });
    let parsed = Options::parse(&bytes("05 0a 00000000 00000001 05 0a 00000002 00000003")).unwrap();
    assert_eq!(parsed.sack, blocks(2));
}

#[test]
fn malformed_options_are_refused() {
    let fails = |hex: &str, kind, at, problem| {
        let expected = ParseError::new(Header::TcpOption(kind), at, problem);
        assert_eq!(Options::parse(&bytes(hex)), Err(expected), "{hex}");
    };
    fails("01 02", 2, 1, Problem::Truncated { needed: 2, available: 1 });
    fails("01 02 00", 2, 2, Problem::Length(0));
    fails("01 02 04 05", 2, 1, Problem::Truncated { needed: 4, available: 3 });
}

#[test]
fn only_option_of_wrong_length_is_ignored() {
    let wrong = [
        "02 03 05",
        "03 04 05 06",
        "04 03 05",
        "08 04 05 06",
        "05 02",
        "05 0b 00 00 00 00 00 00 00 00 00",
        "1e 02",
        "1e 08 20 00 00000000",
    ];
    for hex in wrong {
        let beside = bytes(&format!("{hex} 08 0a 01020304 05060708"));
        assert_eq!(
            Options::parse(&beside),
            Ok(Options { timestamps: STAMPS, ..Options::default() }),
            "{hex}"
        );
    }
}

const HEADERS: Addresses = Addresses {
    source: core::net::IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1)),
    destination: core::net::IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 2)),
};

fn example() -> (Segment, Vec<u8>) {
    let segment = Segment {
        source_port: 0x1234,
        destination_port: 80,
        seq: Serial(0x0102_0304),
        ack: Serial(0x0506_0708),
        flags: Flags::ACK | Flags::PSH,
        window: 0x2000,
        urgent: 0,
        options: Options { mss: Some(1460), ..Options::default() },
        payload: Payload::new(0, 3),
        ip_option: None,
    };
    let mut out = Vec::new();
    segment.emit_with(HEADERS, &mut out, |payload| payload.copy_from_slice(b"abc"));
    (segment, out)
}

#[test]
fn segment_equals_bytes_computed_by_hand() {
    let (segment, out) = example();
    // Sum by hand: pseudo-header 0a00 0001 0a00 0002 0006 001b, then the words below with a zero behind the last byte.
    let words: [u32; 20] = [
        0x0a00, 0x0001, 0x0a00, 0x0002, 0x0006, 0x001b, 0x1234, 0x0050, 0x0102, 0x0304, 0x0506, 0x0708,
        0x6018, 0x2000, 0x0000, 0x0204, 0x05b4, 0x6162, 0x6300, 0x0000,
    ];
    let sum: u32 = words.iter().sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    let expected = format!("1234 0050 01020304 05060708 60 18 2000 {checksum:04x} 0000 02 04 05b4 61 62 63");
    assert_eq!(out, bytes(&expected));
    let payload = Payload::new(24, 3);
    assert_eq!(Segment::parse(&out, HEADERS), Ok(Segment { payload, ..segment }));
}

#[test]
fn malformed_segments_are_refused() {
    let (_, good) = example();
    let fails = |change: &dyn Fn(&mut Vec<u8>), at, problem: Problem| {
        let mut bytes = good.clone();
        change(&mut bytes);
        assert_eq!(Segment::parse(&bytes, HEADERS), Err(ParseError::new(Header::Tcp, at, problem)));
    };
    fails(&|bytes| bytes[12] = 0x40, 12, Problem::Length(16));
    fails(&|bytes| bytes[12] = 0xf0, 12, Problem::Truncated { needed: 60, available: 27 });
    fails(&|bytes| bytes.truncate(19), 18, Problem::Truncated { needed: 2, available: 1 });
    let found = u32::from(u16::from_be_bytes([good[16], good[17]]));
    fails(&|bytes| bytes[17] ^= 1, 16, Problem::Checksum { found: found ^ 1, computed: found });
    // Offsets of option errors count from the start of the segment.
    let mut bytes = good.clone();
    bytes[21] = 0;
    bytes[17] = bytes[17].wrapping_add(4);
    let error = Segment::parse(&bytes, HEADERS).expect_err("an MSS of no bytes");
    assert_eq!(error, ParseError::new(Header::TcpOption(2), 21, Problem::Length(0)));
}
