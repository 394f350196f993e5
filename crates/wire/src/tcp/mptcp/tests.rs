//! Each option from and to the bytes of its diagram in RFC 8684.

use super::*;
use crate::bytes::from_hex as bytes;
use crate::error::Header;
use crate::ip::Addresses;
use crate::tcp::{Options as TcpOptions, Segment, Timestamps};
use crate::{Checksum, Payload};
use core::net::{IpAddr, Ipv6Addr};

/// Reads options from hexadecimal digits with spaces.
fn parse(hex: &str) -> Result<Options, ParseError> {
    TcpOptions::parse(&bytes(hex)).map(|options| (*options.mptcp).clone())
}

/// Checks that the value is written as these bytes, and that they are parsed as this value.
#[track_caller]
fn both_ways(value: &Options, hex: &str) {
    let options = TcpOptions { mptcp: value.clone().into(), ..TcpOptions::default() };
    let mut out = Vec::new();
    options.emit(&mut out);
    assert_eq!(out, bytes(hex), "{value:?}");
    assert_eq!(options.wire_len() as usize, out.len());
    assert_eq!(parse(hex).as_ref(), Ok(value));
}

fn control(control: Control) -> Options {
    Options { dss: None, others: vec![control] }
}

/// Asserts the error of parsing an option.
#[track_caller]
fn fails(hex: &str, header: Header, at: usize, problem: Problem) {
    let error = Options::default().parse_option(&bytes(hex)).expect_err("malformed");
    assert_eq!(error, ParseError::new(header, at, problem));
    assert_eq!(parse(hex), Ok(Options::default()), "an unknown option is skipped");
}

const SENDER: u64 = 0x0102_0304_0506_0708;
const RECEIVER: u64 = 0x1112_1314_1516_1718;

#[test]
fn capable_round_trips_in_its_five_lengths() {
    let syn = Capable { version: 1, hmac_sha256: true, ..Capable::default() };
    both_ways(&control(Control::Capable(syn)), "1e 04 01 01");
    let syn_ack = Capable { checksum_required: true, sender_key: Some(SENDER), ..syn };
    both_ways(&control(Control::Capable(syn_ack)), "1e 0c 01 81 0102030405060708");
    let ack = Capable { no_join_here: true, receiver_key: Some(RECEIVER), ..syn_ack };
    both_ways(&control(Control::Capable(ack)), "1e 14 01 a1 0102030405060708 1112131415161718");
    let data = Capable { data: Some(CapableData { len: 0x1234, checksum: None }), ..ack };
    both_ways(&control(Control::Capable(data)), "1e 16 01 a1 0102030405060708 1112131415161718 1234 01 01");
    let checked = Capable {
        data: Some(CapableData { len: 0x1234, checksum: Some(DataChecksum::Known(0xabcd)) }),
        ..ack
    };
    both_ways(&control(Control::Capable(checked)), "1e 18 01 a1 0102030405060708 1112131415161718 1234 abcd");
}

#[test]
fn capable_with_the_extension_flag_is_ignored() {
    assert_eq!(parse("1e 04 01 41"), Ok(Options::default()));
}

#[test]
fn capable_ignores_reserved_bits() {
    let syn = Capable { version: 1, hmac_sha256: true, ..Capable::default() };
    assert_eq!(parse("1e 04 01 1f"), Ok(control(Control::Capable(syn))));
    fails("1e 05 01 01 00", Header::Mptcp(0), 1, Problem::Length(5));
    fails("1e 03 01", Header::Mptcp(0), 0, Problem::Truncated { needed: 4, available: 3 });
}

#[test]
fn join_round_trips_in_its_three_forms() {
    let syn = Join::Syn { backup: true, address_id: 9, token: 0x0a0b_0c0d, nonce: 0x0102_0304 };
    both_ways(&control(Control::Join(syn)), "1e 0c 11 09 0a0b0c0d 01020304");
    let syn_ack = Join::SynAck { backup: false, address_id: 0, hmac: SENDER, nonce: 0x1112_1314 };
    both_ways(&control(Control::Join(syn_ack)), "1e 10 10 00 0102030405060708 11121314");
    let ack = Join::Ack { hmac: core::array::from_fn(|at| at as u8) };
    both_ways(&control(Control::Join(ack)), "1e 18 10 00 000102030405060708090a0b0c0d0e0f10111213");
    fails("1e 0d 10 00 000000000000000000", Header::Mptcp(1), 1, Problem::Length(13));
}

#[test]
fn dss_round_trips_in_all_lengths() {
    let mut dss = Dss::default();
    let mut check = |change: &dyn Fn(&mut Dss), hex: &str| {
        change(&mut dss);
        both_ways(&Options { dss: Some(dss), others: Vec::new() }, hex);
    };
    check(&|_| {}, "1e 04 20 00");
    check(&|dss| dss.data_ack = Some(DataNumber::Short(0x0102_0304)), "1e 08 20 01 01020304");
    check(&|dss| dss.data_ack = Some(DataNumber::Long(SENDER)), "1e 0c 20 03 0102030405060708");
    let short = Mapping { dsn: DataNumber::Short(0x2122_2324), subflow_seq: 7, len: 1400, checksum: None };
    check(&|dss| dss.mapping = Some(short), "1e 16 20 07 0102030405060708 21222324 00000007 0578 01 01");
    check(&|dss| dss.data_ack = None, "1e 0e 20 04 21222324 00000007 0578 01 01");
    let long = Mapping { dsn: DataNumber::Long(RECEIVER), ..short };
    check(&|dss| dss.mapping = Some(long), "1e 12 20 0c 1112131415161718 00000007 0578 01 01");
    check(&|dss| dss.data_fin = true, "1e 12 20 1c 1112131415161718 00000007 0578 01 01");
    let checked = Mapping { checksum: Some(DataChecksum::Known(0xbeef)), ..long };
    check(&|dss| dss.mapping = Some(checked), "1e 14 20 1c 1112131415161718 00000007 0578 beef");
    check(
        &|dss| dss.data_ack = Some(DataNumber::Long(SENDER)),
        "1e 1c 20 1f 0102030405060708 1112131415161718 00000007 0578 beef",
    );
    // An infinite mapping has length 0.
    let infinite = Mapping { len: 0, ..long };
    check(
        &|dss| *dss = Dss { mapping: Some(infinite), ..Dss::default() },
        "1e 12 20 0c 1112131415161718 00000007 0000 01 01",
    );
}

#[test]
fn dss_of_a_wrong_length_is_refused() {
    fails("1e 08 20 00 00000000", Header::Mptcp(2), 1, Problem::Length(8));
    fails("1e 07 20 01 000000", Header::Mptcp(2), 4, Problem::Truncated { needed: 4, available: 3 });
    // A mapping and one byte: half a checksum.
    fails(
        "1e 0f 20 04 21222324 00000007 0578 00",
        Header::Mptcp(2),
        14,
        Problem::Truncated { needed: 2, available: 1 },
    );
    fails("1e 12 20 04 21222324 00000007 0578 00000000", Header::Mptcp(2), 1, Problem::Length(18));
}

#[test]
fn add_address_round_trips_in_all_lengths() {
    let v4 = IpAddr::from([192, 0, 2, 1]);
    let v6 = IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    let add =
        |address, port, hmac| control(Control::AddAddress(AddAddress { address_id: 3, address, port, hmac }));
    both_ways(&add(v4, None, Some(SENDER)), "1e 10 30 03 c0000201 0102030405060708");
    both_ways(&add(v4, Some(8080), Some(SENDER)), "1e 12 30 03 c0000201 1f90 0102030405060708 01 01");
    both_ways(&add(v4, None, None), "1e 08 31 03 c0000201");
    both_ways(&add(v4, Some(8080), None), "1e 0a 31 03 c0000201 1f90 01 01");
    let v6_hex = "20010db8000000000000000000000001";
    both_ways(&add(v6, None, Some(SENDER)), &format!("1e 1c 30 03 {v6_hex} 0102030405060708"));
    both_ways(
        &add(v6, Some(8080), Some(SENDER)),
        &format!("1e 1e 30 03 {v6_hex} 1f90 0102030405060708 01 01"),
    );
    both_ways(&add(v6, None, None), &format!("1e 14 31 03 {v6_hex}"));
    both_ways(&add(v6, Some(8080), None), &format!("1e 16 31 03 {v6_hex} 1f90 01 01"));
    // Only an echo lacks the HMAC.
    fails("1e 08 30 03 c0000201", Header::Mptcp(3), 1, Problem::Length(8));
    fails("1e 10 31 03 c0000201 0102030405060708", Header::Mptcp(3), 1, Problem::Length(16));
}

#[test]
fn remove_address_round_trips() {
    both_ways(&control(Control::RemoveAddress(vec![5])), "1e 04 40 05");
    both_ways(&control(Control::RemoveAddress(vec![5, 6, 7])), "1e 06 40 05 06 07 01 01");
    fails("1e 03 40", Header::Mptcp(4), 1, Problem::Length(3));
}

#[test]
fn signals_are_encoded() {
    both_ways(&control(Control::Priority { backup: true }), "1e 03 51 01");
    both_ways(&control(Control::Priority { backup: false }), "1e 03 50 01");
    both_ways(&control(Control::Fail { dsn: SENDER }), "1e 0c 60 00 0102030405060708");
    both_ways(&control(Control::FastClose { receiver_key: RECEIVER }), "1e 0c 70 00 1112131415161718");
    both_ways(&control(Control::Reset { flags: 0b1001, reason: 2 }), "1e 04 89 02");
    fails("1e 04 51 00", Header::Mptcp(5), 1, Problem::Length(4));
    fails("1e 04 60 00", Header::Mptcp(6), 1, Problem::Length(4));
    fails("1e 0b 70 00 11121314151617", Header::Mptcp(7), 1, Problem::Length(11));
    fails("1e 03 80", Header::Mptcp(8), 1, Problem::Length(3));
}

#[test]
fn options_keep_order_and_unknown_ones_are_skipped() {
    let dss = Dss { data_ack: Some(DataNumber::Short(1)), ..Dss::default() };
    let others = vec![Control::RemoveAddress(vec![1]), Control::Priority { backup: true }];
    both_ways(&Options { dss: Some(dss), others }, "1e 08 20 01 00000001 1e 04 40 01 1e 03 51 01");

    let prio = control(Control::Priority { backup: false });
    assert_eq!(parse("1e 05 f0 12 34 1e 03 50"), Ok(prio));
    assert_eq!(parse("1e 03 90"), Ok(Options::default()));
    fails("1e 02", Header::TcpOption(KIND), 1, Problem::Length(2));
}

#[test]
fn mapping_checksum_equals_value_by_hand() {
    // By hand, word by word: DSN 0001 0002 0003 0004, subflow 0000 0005, length 0004, zero, data 1020 3040.
    let sum = 1 + 2 + 3 + 4 + 5 + 4 + 0x1020 + 0x3040;
    let data = Checksum::new().bytes(&[0x10, 0x20, 0x30, 0x40]);
    assert_eq!(dss_checksum(0x0001_0002_0003_0004, 5, 4, data), !sum);

    // The checksum is the same whether it is computed from the pattern or from the payload bytes.
    let payload = Payload::new(77, 1_001);
    let mut bytes = vec![0; 1_001];
    payload.fill(&mut bytes);
    assert_eq!(
        dss_checksum(SENDER, 1, 1_001, Checksum::new().pattern(payload)),
        dss_checksum(SENDER, 1, 1_001, Checksum::new().bytes(&bytes)),
    );
}

#[test]
fn pending_checksum_is_computed_on_writing() {
    let addresses = Addresses { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let long = Mapping {
        dsn: DataNumber::Long(SENDER),
        subflow_seq: 7,
        len: 5,
        checksum: Some(DataChecksum::pending(SENDER, 7, 5)),
    };
    let data = CapableData { len: 5, checksum: Some(DataChecksum::pending(SENDER, 1, 5)) };
    let keys = (Some(1), Some(2));
    let capable =
        Capable { sender_key: keys.0, receiver_key: keys.1, data: Some(data), ..Capable::default() };
    let dss = Dss { mapping: Some(long), data_ack: Some(DataNumber::Short(9)), ..Dss::default() };
    let of_dss = Options { dss: Some(dss), others: vec![Control::Priority { backup: true }] };
    let of_capable = Options { dss: None, others: vec![Control::Capable(capable)] };
    for (mptcp, subflow_seq) in [(of_dss, 7), (of_capable, 1)] {
        let mut segment = Segment { payload: Payload::new(100, 5), ..Segment::default() };
        segment.options.mptcp = mptcp.into();
        segment.options.timestamps = Some(Timestamps { value: 1, echo: 2 });
        let mut bytes = Vec::new();
        segment.emit_with(addresses, &mut bytes, |out| out.copy_from_slice(b"bytes"));
        let read = Segment::parse(&bytes, addresses).unwrap();
        let mut found = (*read.options.mptcp).clone();
        assert_eq!(found.pending_checksum(), None);
        let known = match (found.dss, &found.others[0]) {
            (Some(dss), _) => dss.mapping.unwrap().checksum,
            (None, Control::Capable(capable)) => capable.data.unwrap().checksum,
            _ => None,
        };
        let expected = dss_checksum(SENDER, subflow_seq, 5, Checksum::new().bytes(b"bytes"));
        assert_eq!(known, Some(DataChecksum::Known(expected)));
        // `settle` computes the same checksum without writing the segment.
        segment.payload.offset = u64::from(segment.header_len());
        segment.settle(&crate::Buffer(&bytes));
        assert_eq!(segment, read);
    }
}
