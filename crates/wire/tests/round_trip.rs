//! Values to bytes and back, and adversarial bytes.

mod fuzz_bodies;
mod strategies;

use anabranch_wire::tcp::mptcp::{Control, Options as MultipathOptions};
use anabranch_wire::tcp::{Options, Segment, Timestamps};
use anabranch_wire::{Body, Buffer, CheckError, EncodeError, Packet, Payload};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Every field and payload byte is read back, and the encoding has `wire_len()` bytes.
    #[test]
    fn packets_round_trip(packet in strategies::packet(2_000)) {
        let mut scratch = Vec::new();
        prop_assert_eq!(anabranch_wire::check(&packet, &mut scratch), Ok(()));
        // The encoding is canonical: writing the parsed packet gives the same bytes.
        let parsed = Packet::parse(&scratch).expect("checked");
        let mut again = Vec::new();
        parsed.emit_with(&mut again, |payload, out| out.copy_from_slice(Buffer(&scratch).bytes(payload)));
        prop_assert_eq!(scratch, again);
    }

    #[test]
    fn icmp_round_trips_and_changes_are_detected(packet in strategies::icmp(), at in any::<usize>()) {
        let mut bytes = Vec::new();
        prop_assert_eq!(anabranch_wire::check(&packet, &mut bytes), Ok(()));
        let body = if packet.source.is_ipv4() { 20 } else { 40 };
        let bit = body * 8 + at % ((bytes.len() - body) * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Packet::parse(&bytes).is_err());
        fuzz_bodies::packet(&bytes);
        fuzz_bodies::packet(&bytes[..body + at % (bytes.len() - body)]);
    }

    #[test]
    fn options_round_trip(options in strategies::options()) {
        let mut bytes = Vec::new();
        options.emit(&mut bytes);
        prop_assert_eq!(bytes.len(), options.wire_len() as usize);
        prop_assert_eq!(Options::parse(&bytes).expect("written options parse"), options);
    }

    /// Options that fit in whole words are laid out in whole words, for any number of SACK blocks.
    #[test]
    fn options_that_fit_are_aligned(options in strategies::options()) {
        let mut full = options;
        loop {
            let aligned = aligned_len(&full);
            if aligned <= 40 {
                prop_assert_eq!(full.wire_len(), aligned, "{:?}", full);
            }
            if !full.sack.push(anabranch_wire::seq::Serial(1), anabranch_wire::seq::Serial(9)) {
                break;
            }
        }
    }

    /// A truncated packet is an error, never a panic and never another packet.
    #[test]
    fn truncated_packet_is_an_error(packet in strategies::packet(40)) {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        for len in 0..bytes.len() {
            prop_assert!(Packet::parse(&bytes[..len]).is_err(), "{} of {} bytes", len, bytes.len());
            // A truncated packet with lengths and checksums that match the truncation is an error, too.
            let mut believable = bytes[..len].to_vec();
            fuzz_bodies::repair_checksums(&mut believable);
            fuzz_bodies::packet(&believable);
        }
    }

    /// One changed bit always changes the checksum. (This does not hold for UDP, whose length field moves the end of the sum.)
    #[test]
    fn changed_bit_of_a_segment_is_an_error(packet in strategies::packet(40), at in any::<usize>()) {
        let Body::Tcp(segment) = &packet.body else { return Ok(()) };
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        // No checksum covers the headers of IPv6.
        let body = bytes.len() - segment.wire_len() as usize;
        let bit = body * 8 + at % ((bytes.len() - body) * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Packet::parse(&bytes).is_err());
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_bodies::packet(&bytes);
        fuzz_bodies::tcp_options(&bytes);
        fuzz_bodies::mptcp_option(&bytes);
        fuzz_bodies::sctp(&bytes);
    }

    #[test]
    fn random_options_in_a_valid_packet_never_panic(
        packet in strategies::packet(10),
        options in proptest::collection::vec(any::<u8>(), 40),
    ) {
        let Packet { body: Body::Tcp(_), .. } = packet else { return Ok(()) };
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        let header = if packet.source.is_ipv4() { 20 } else { 40 };
        bytes.truncate(header + 20);
        bytes[header + 12] = 0xf0;
        bytes.extend_from_slice(&options);
        fuzz_bodies::packet(&bytes);
    }
}

/// The length in whole words, computed independently: by writing each group alone.
fn aligned_len(options: &Options) -> u32 {
    let alone = |options: Options| options.wire_len();
    let plain = Options {
        mss: options.mss,
        window_scale: options.window_scale,
        sack_permitted: options.sack_permitted,
        timestamps: options.timestamps,
        ..Options::default()
    };
    let multipath = options.mptcp.others.iter().map(|control| {
        let mptcp = MultipathOptions { dss: None, others: vec![control.clone()] };
        alone(Options { mptcp: mptcp.into(), ..Options::default() })
    });
    let dss = MultipathOptions { dss: options.mptcp.dss, others: Vec::new() };
    alone(plain)
        + alone(Options { sack: options.sack.clone(), ..Options::default() })
        + alone(Options { mptcp: dss.into(), ..Options::default() })
        + multipath.sum::<u32>()
}

/// A TCP packet with these options and this length of payload.
fn tcp(options: Options, len: u32) -> Packet {
    let segment = Segment { options, payload: Payload::new(0, len), ..Segment::default() };
    Packet {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        ecn: anabranch_wire::Ecn::NotEct,
        body: Body::Tcp(segment),
    }
}

#[test]
fn check_reports_unwritable_packets() {
    let mut scratch = Vec::new();
    let mut check = |packet: &Packet| match anabranch_wire::check(packet, &mut scratch) {
        Err(CheckError::Encode(error)) => Some(error),
        _ => None,
    };
    let mixed = Packet { source: "::1".parse().unwrap(), ..tcp(Options::default(), 0) };
    assert_eq!(check(&mixed), Some(EncodeError::MixedFamilies));

    assert_eq!(check(&tcp(Options::default(), 65_495)), None);
    assert_eq!(check(&tcp(Options::default(), 65_496)), Some(EncodeError::PacketTooLong(65_536)));

    let with = |others: Vec<Control>| {
        let mptcp = MultipathOptions { dss: None, others };
        tcp(Options { mptcp: mptcp.into(), timestamps: Some(Timestamps::default()), ..Options::default() }, 0)
    };
    let fail = Control::Fail { dsn: 1 };
    assert_eq!(check(&with(vec![fail.clone(); 2])), None);
    assert_eq!(check(&with(vec![fail; 3])), Some(EncodeError::OptionsTooLong(48)));
    for impossible in [
        Control::RemoveAddress(Vec::new()),
        Control::Reset { flags: 16, reason: 0 },
        Control::Capable(anabranch_wire::tcp::mptcp::Capable { version: 16, ..Default::default() }),
        Control::Capable(anabranch_wire::tcp::mptcp::Capable { receiver_key: Some(1), ..Default::default() }),
    ] {
        assert!(matches!(check(&with(vec![impossible])), Some(EncodeError::Value(_))));
    }
}

#[test]
#[should_panic(expected = "TCP options need 48 bytes, there are 40")]
fn writing_an_unwritable_packet_panics() {
    let mptcp = MultipathOptions { dss: None, others: vec![Control::Fail { dsn: 1 }; 4] };
    tcp(Options { mptcp: mptcp.into(), ..Options::default() }, 0).emit(&mut Vec::new());
}
