//! Packets that usrsctp sent: this crate parses them, encodes them in the same layout, and reads the values that
//! usrsctp wrote.

mod fuzz_bodies;
mod vectors;

use anabranch_wire::sctp::{Chunk, DataFlags, HmacId, Packet, Parameter, UDP_PORT, encapsulation, kind};
use anabranch_wire::seq::Serial;
use anabranch_wire::{Body, Buffer};
use core::net::Ipv4Addr;
use proptest::prelude::*;

fn chunks(name: &str) -> Vec<Chunk> {
    let vectors = vectors::usrsctp();
    let (_, bytes) = vectors.iter().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("no {name}"));
    let parsed = encapsulation::parse(bytes, UDP_PORT).expect("usrsctp's packets parse");
    match parsed.body {
        Body::Sctp(packet) => {
            assert_eq!(packet.udp, Some(encapsulation::Ports::default()));
            packet.chunks.to_vec()
        }
        other => panic!("SCTP, not {other:?}"),
    }
}

/// The chunk type in the name of a vector, or in a part of it after `+`.
fn named(name: &str) -> u8 {
    match name {
        "data" => kind::DATA,
        "init" => kind::INIT,
        "init-ack" => kind::INIT_ACK,
        "sack" => kind::SACK,
        "heartbeat" => kind::HEARTBEAT,
        "heartbeat-ack" => kind::HEARTBEAT_ACK,
        "abort" => kind::ABORT,
        "shutdown" => kind::SHUTDOWN,
        "shutdown-ack" => kind::SHUTDOWN_ACK,
        "cookie-echo" => kind::COOKIE_ECHO,
        "cookie-ack" => kind::COOKIE_ACK,
        "shutdown-complete" => kind::SHUTDOWN_COMPLETE,
        "auth" => 15,
        "nr-sack" => kind::NR_SACK,
        "i-data" => kind::I_DATA,
        "asconf-ack" => kind::ASCONF_ACK,
        "asconf" => kind::ASCONF,
        "forward-tsn" => kind::FORWARD_TSN,
        "i-forward-tsn" => kind::I_FORWARD_TSN,
        other => panic!("{other}?"),
    }
}

#[test]
fn encoding_equals_that_of_usrsctp() {
    let vectors = vectors::usrsctp();
    assert!(vectors.len() > 40);
    for (name, bytes) in vectors {
        let packet = encapsulation::parse(&bytes, UDP_PORT).unwrap_or_else(|error| panic!("{name}: {error}"));
        let Body::Sctp(Packet { chunks, .. }) = &packet.body else { panic!("{name}: SCTP") };
        let names = name.split(':').next().expect("a name").split('+').map(named);
        assert!(chunks.iter().map(Chunk::kind).eq(names), "{name}: {chunks:?}");

        let mut ours = Vec::new();
        packet.emit_with(&mut ours, |payload, out| out.copy_from_slice(Buffer(&bytes).bytes(payload)));
        // All but the IP header (its identification differs) and the UDP checksum, which parsing has
        // verified.
        assert_eq!(ours[20..], bytes[20..], "{name}");
    }
}

#[test]
fn init_is_parsed() {
    let [Chunk::Init(init)] = &chunks("init")[..] else { panic!("INIT") };
    assert_eq!((init.outbound_streams, init.inbound_streams, init.a_rwnd), (10, 2048, 131_072));
    assert!(init.initiate_tag != 0);
    assert!(init.parameters.contains(&Parameter::EcnCapable));
    assert!(init.parameters.contains(&Parameter::ForwardTsnSupported));
    let extensions = init.parameters.iter().find_map(|parameter| match parameter {
        Parameter::SupportedExtensions(kinds) => Some(kinds),
        _ => None,
    });
    assert!(
        extensions.is_some_and(|kinds| kinds.contains(&kind::ASCONF) && kinds.contains(&kind::FORWARD_TSN))
    );

    let [Chunk::InitAck(init)] = &chunks("init-ack")[..] else { panic!("INIT ACK") };
    let cookie = init.parameters.iter().find_map(|parameter| match parameter {
        Parameter::StateCookie(cookie) => Some(cookie.len()),
        _ => None,
    });
    let [Chunk::CookieEcho(echo)] = &chunks("cookie-echo")[..] else { panic!("COOKIE ECHO") };
    assert_eq!(cookie, Some(echo.cookie.len()));
}

#[test]
fn acknowledgements_are_parsed() {
    let [Chunk::NrSack(nr_sack)] = &chunks("nr-sack:gaps,nr-gaps,duplicates,answers-2")[..] else {
        panic!("NR-SACK")
    };
    assert_eq!(nr_sack.sack.flags.packets_answered(), 2);
    assert!(!nr_sack.sack.duplicates.is_empty());
    // The two lists contain different TSNs, each in ascending order.
    for blocks in [&nr_sack.sack.gaps, &nr_sack.nr_gaps] {
        assert!(!blocks.is_empty());
        assert!(blocks.iter().all(|block| block.start >= 2 && block.start <= block.end));
        assert!(blocks.is_sorted_by(|one, next| one.end < next.start));
    }
    let [Chunk::Sack(sack)] = &chunks("sack:gaps,answers-1")[..] else { panic!("SACK") };
    assert_eq!(sack.flags.packets_answered(), 1);
    let [Chunk::Sack(sack)] = &chunks("sack")[..] else { panic!("SACK") };
    assert_eq!(sack.flags.packets_answered(), 0);
}

#[test]
fn data_of_both_kinds_is_parsed() {
    let [Chunk::Data(data)] = &chunks("data:whole-immediate")[..] else { panic!("DATA") };
    assert_eq!((data.flags, data.stream, data.payload.len), (DataFlags::WHOLE | DataFlags::IMMEDIATE, 0, 1));
    assert_eq!(data.ppid, 51);
    let [Chunk::IData(data)] = &chunks("i-data:whole-unordered")[..] else { panic!("I-DATA") };
    assert_eq!((data.flags, data.fsn()), (DataFlags::WHOLE | DataFlags::UNORDERED, 0));
    assert!(data.ppid().is_some_and(|ppid| (51..54).contains(&ppid)));
    let [Chunk::IData(data)] = &chunks("i-data:last")[..] else { panic!("I-DATA") };
    assert!(data.fsn() > 0 && data.ppid().is_none());
}

#[test]
fn abandoned_messages_are_parsed() {
    let [Chunk::ForwardTsn(forward)] = &chunks("forward-tsn:streams")[..] else { panic!("FORWARD TSN") };
    assert!(forward.skipped.iter().all(|skipped| skipped.stream < 4));
    let [Chunk::IForwardTsn(forward)] = &chunks("i-forward-tsn:streams")[..] else { panic!("I-FORWARD-TSN") };
    assert!(!forward.skipped.is_empty() && forward.skipped.iter().all(|skipped| skipped.stream < 4));
}

#[test]
fn address_reconfiguration_is_parsed() {
    let [Chunk::Auth(auth), Chunk::Asconf(asconf)] = &chunks("auth+asconf")[..] else { panic!("ASCONF") };
    assert_eq!((auth.key, auth.algorithm, auth.code.len()), (0, HmacId::SHA1, 20));
    let address = Ipv4Addr::new(10, 7, 1, 1);
    assert_eq!(asconf.address, address);
    let added = Ipv4Addr::new(10, 7, 2, 1).into();
    assert_eq!(asconf.parameters, [Parameter::AddAddress { correlation: 0x0100_0000, address: added }]);
    let [_, Chunk::AsconfAck(ack)] = &chunks("auth+asconf-ack")[..] else { panic!("ASCONF ACK") };
    assert_eq!((ack.serial, &ack.parameters[..]), (asconf.serial, &[][..]));
    assert_ne!(ack.serial, Serial(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Real packets with a few bytes changed, cut or repeated, and a correct checksum.
    #[test]
    fn damaged_packets_never_panic(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..5),
        cut in prop::option::of(any::<prop::sample::Index>()),
        again in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let vectors = vectors::usrsctp();
        // Behind the IP and UDP headers.
        let mut bytes = which.get(&vectors).1[28..].to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(from) = again {
            bytes.extend_from_within(from.index(bytes.len())..);
        }
        if let Some(end) = cut {
            bytes.truncate(end.index(bytes.len()));
        }
        fuzz_bodies::sctp(&bytes);
    }
}
