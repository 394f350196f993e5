//! Strategies for every SCTP value that has an encoding.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this module")]

use anabranch_wire::Payload;
use anabranch_wire::sctp::{
    Abort, AddressType, Asconf, AsconfAck, Auth, Cause, Chunk, CongestionEcho, CongestionReduced, CookieEcho,
    Data, DataFlags, Error, ForwardTsn, GapBlock, Heartbeat, HmacId, IData, IForwardTsn, Init,
    NetworkControl, NrSack, Outcome, Packet, Pad, Parameter, Reconfig, Reconfiguration, Sack, SackFlags,
    Shutdown, ShutdownComplete, Skipped, SkippedMessage, Unknown, cause, kind, network_control, parameter,
};
use anabranch_wire::seq::Serial;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// A payload of up to `longest` bytes anywhere in a stream.
pub fn payload(longest: u32) -> impl Strategy<Value = Payload> {
    (any::<u64>(), 0..=longest).prop_map(|(offset, len)| Payload::new(offset, len))
}

/// Any serial number.
pub fn serial() -> impl Strategy<Value = Serial> {
    any::<u32>().prop_map(Serial)
}

/// Up to `longest` opaque bytes.
pub fn bytes(longest: usize) -> impl Strategy<Value = Box<[u8]>> {
    vec(any::<u8>(), 0..=longest).prop_map(Vec::into_boxed_slice)
}

/// `DATA` with a payload of up to `longest` bytes.
pub fn data(longest: u32) -> impl Strategy<Value = Data> {
    (serial(), any::<(u16, u16, u32)>(), 0..16u8, payload(longest)).prop_map(
        |(tsn, (stream, ssn, ppid), flags, payload)| Data {
            tsn,
            stream,
            ssn,
            ppid,
            flags: DataFlags(flags),
            payload,
        },
    )
}

/// `I-DATA` with a payload of up to `longest` bytes.
pub fn i_data(longest: u32) -> impl Strategy<Value = IData> {
    (serial(), any::<u16>(), serial(), any::<u32>(), 0..16u8, payload(longest)).prop_map(
        |(tsn, stream, mid, ppid_or_fsn, flags, payload)| IData {
            tsn,
            stream,
            mid,
            ppid_or_fsn,
            flags: DataFlags(flags),
            payload,
        },
    )
}

/// Up to `most` gap blocks as a receiver makes them: ascending, apart from each other.
pub fn gaps(most: usize) -> impl Strategy<Value = Vec<GapBlock>> {
    vec((1..50u16, 0..50u16), 0..=most).prop_map(|steps| {
        let mut end = 0_u16;
        let block = |(gap, more): (u16, u16)| {
            let start = end + gap + 1;
            end = start + more;
            GapBlock::new(start, end)
        };
        steps.into_iter().map(block).collect()
    })
}

/// `SACK`.
pub fn sack() -> impl Strategy<Value = Sack> {
    (serial(), any::<u32>(), 0..5u32, gaps(40), vec(serial(), 0..4)).prop_map(
        |(cumulative_tsn, a_rwnd, answered, gaps, duplicates)| Sack {
            cumulative_tsn,
            a_rwnd,
            flags: SackFlags::answering(answered),
            gaps,
            duplicates: duplicates.into(),
        },
    )
}

/// `NR-SACK`.
pub fn nr_sack() -> impl Strategy<Value = NrSack> {
    (sack(), gaps(40)).prop_map(|(sack, nr_gaps)| NrSack { sack, nr_gaps })
}

/// A parameter of unknown type.
pub fn unknown_parameter() -> impl Strategy<Value = Parameter> {
    let kind = any::<u16>().prop_filter("a type that the crate reads", |kind| !reads_parameter(*kind));
    (kind, bytes(20)).prop_map(|(kind, value)| Parameter::Unknown { kind, value })
}

/// Parameter types that are not parsed as `Parameter::Unknown`.
pub fn reads_parameter(kind: u16) -> bool {
    use parameter::kind as known;
    matches!(
        kind,
        known::HEARTBEAT_INFO
            | known::IPV4..=known::COOKIE_PRESERVATIVE
            | known::HOST_NAME
            | known::SUPPORTED_ADDRESS_TYPES
            | known::ECN_CAPABLE..=known::HMAC_ALGORITHMS
            | known::SUPPORTED_EXTENSIONS
            | known::DELAYED_ACK_FOR_CMT
            | known::FORWARD_TSN_SUPPORTED..=known::ADAPTATION
    )
}

/// A parameter of `INIT` or `INIT ACK`.
pub fn init_parameter() -> impl Strategy<Value = Parameter> {
    prop_oneof![
        any::<Ipv4Addr>().prop_map(Parameter::Ipv4),
        any::<Ipv6Addr>().prop_map(Parameter::Ipv6),
        bytes(60).prop_map(Parameter::StateCookie),
        unknown_parameter().prop_map(|unknown| Parameter::Unrecognized(unknown.to_bytes())),
        any::<u32>().prop_map(|increment_ms| Parameter::CookiePreservative { increment_ms }),
        "[a-z]{1,9}\0".prop_map(|name| Parameter::HostName(name.into_bytes().into())),
        vec(prop_oneof![Just(AddressType::IPV4), Just(AddressType::IPV6)], 1..3)
            .prop_map(|types| Parameter::SupportedAddressTypes(types.into())),
        Just(Parameter::EcnCapable),
        vec(prop_oneof![Just(kind::NR_SACK), Just(kind::I_DATA), Just(kind::ASCONF), any::<u8>()], 1..8)
            .prop_map(|kinds| Parameter::SupportedExtensions(kinds.into())),
        Just(Parameter::DelayedAckForCmt),
        Just(Parameter::ForwardTsnSupported),
        any::<u32>().prop_map(|method| Parameter::ZeroChecksumAcceptable { method }),
        bytes(40).prop_map(Parameter::Random),
        bytes(8).prop_map(Parameter::ChunkList),
        vec(any::<u16>().prop_map(HmacId), 0..4).prop_map(|ids| Parameter::HmacAlgorithms(ids.into())),
        any::<u32>().prop_map(|code| Parameter::Adaptation { code }),
        unknown_parameter(),
    ]
}

/// A request of `ASCONF`.
pub fn request() -> impl Strategy<Value = Parameter> {
    (0..3, any::<u32>(), any::<IpAddr>()).prop_map(|(which, correlation, address)| match which {
        0 => Parameter::AddAddress { correlation, address },
        1 => Parameter::DeleteAddress { correlation, address },
        _ => Parameter::SetPrimary { correlation, address },
    })
}

/// An answer of `ASCONF ACK`.
pub fn answer() -> impl Strategy<Value = Parameter> {
    prop_oneof![
        any::<u32>().prop_map(|correlation| Parameter::Success { correlation }),
        (any::<u32>(), vec(cause(), 1..3))
            .prop_map(|(correlation, causes)| Parameter::ErrorCause { correlation, causes }),
    ]
}

/// An error cause.
pub fn cause() -> impl Strategy<Value = Cause> {
    let known = |kind: &u16| {
        !matches!(
            *kind,
            cause::kind::INVALID_STREAM..=cause::kind::PROTOCOL_VIOLATION
                | cause::kind::DELETE_LAST_ADDRESS..=cause::kind::NO_AUTHORIZATION
                | cause::kind::UNSUPPORTED_HMAC
        )
    };
    let unknown = any::<u16>().prop_filter("a code that the crate reads", known);
    prop_oneof![
        any::<u16>().prop_map(|stream| Cause::InvalidStream { stream }),
        vec(1..20u16, 1..5).prop_map(|kinds| Cause::MissingParameters(kinds.into())),
        any::<u32>().prop_map(|staleness_us| Cause::StaleCookie { staleness_us }),
        Just(Cause::OutOfResource),
        any::<Ipv6Addr>().prop_map(|address| Cause::UnresolvableAddress(Parameter::Ipv6(address).to_bytes())),
        unknown_chunk().prop_map(|unknown| Cause::UnrecognizedChunk(Chunk::Unknown(unknown).to_bytes())),
        bytes(30).prop_map(Cause::InvalidMandatoryParameter),
        vec(unknown_parameter(), 1..3)
            .prop_map(|unknown| Cause::UnrecognizedParameters(parameter::to_bytes(&unknown))),
        serial().prop_map(|tsn| Cause::NoUserData { tsn }),
        Just(Cause::CookieWhileShuttingDown),
        vec(any::<IpAddr>(), 1..4).prop_map(Cause::RestartWithNewAddresses),
        bytes(30).prop_map(Cause::UserInitiatedAbort),
        bytes(30).prop_map(Cause::ProtocolViolation),
        request().prop_map(|request| Cause::DeleteLastAddress(request.to_bytes())),
        request().prop_map(|request| Cause::ResourceShortage(request.to_bytes())),
        request().prop_map(|request| Cause::DeleteSourceAddress(request.to_bytes())),
        Just(Cause::IllegalAsconfAck),
        request().prop_map(|request| Cause::NoAuthorization(request.to_bytes())),
        any::<u16>().prop_map(|id| Cause::UnsupportedHmac(HmacId(id))),
        (unknown, bytes(12)).prop_map(|(kind, value)| Cause::Unknown { kind, value }),
    ]
}

/// `INIT` or `INIT ACK` without the chunk's type.
pub fn init() -> impl Strategy<Value = Init> {
    (any::<(u32, u32, u16, u16)>(), serial(), vec(init_parameter(), 0..6)).prop_map(
        |((initiate_tag, a_rwnd, outbound_streams, inbound_streams), initial_tsn, parameters)| Init {
            initiate_tag,
            a_rwnd,
            outbound_streams,
            inbound_streams,
            initial_tsn,
            parameters,
        },
    )
}

/// A chunk of unknown type.
pub fn unknown_chunk() -> impl Strategy<Value = Unknown> {
    let known = |kind: &u8| {
        let high = matches!(*kind, kind::FORWARD_TSN..=kind::I_FORWARD_TSN);
        !matches!(
            *kind,
            0..=kind::SHUTDOWN_COMPLETE
                | kind::AUTH
                | kind::NR_SACK
                | kind::I_DATA
                | kind::ASCONF_ACK
                | kind::RECONFIG
                | kind::PAD
                | kind::NETWORK_CONTROL
        ) && !high
    };
    (any::<u8>().prop_filter("a type that the crate reads", known), any::<u8>(), bytes(30))
        .prop_map(|(kind, flags, value)| Unknown { kind, flags, value })
}

/// A network control chunk.
pub fn network_control() -> impl Strategy<Value = NetworkControl> {
    let record = any::<([u32; 3], [u16; 4])>().prop_map(|(words, halves)| {
        let [router, rate_kbit_per_s, free_kbit_per_s] = words;
        let [delay_100us, loss_milli_percent, queue_packets, flags] = halves;
        network_control::Record {
            router,
            rate_kbit_per_s,
            free_kbit_per_s,
            delay_100us,
            loss_milli_percent,
            queue_packets,
            flags,
        }
    });
    let path = (1..=NetworkControl::MAX_PATHS).prop_flat_map(|paths| (0..paths, Just(paths)));
    let records = vec(record, 0..=NetworkControl::MAX_RECORDS);
    (any::<[bool; 3]>(), any::<([u32; 3], [u16; 2])>(), path, records).prop_map(
        |(flags, (words, bounds), (path, paths), records)| {
            let [is_report, has_overflow, is_shared] = flags;
            let [association, wanted_kbit_per_s, apart_from] = words;
            let [max_delay_100us, max_loss_milli_percent] = bounds;
            NetworkControl {
                is_report,
                has_overflow,
                is_shared,
                association,
                path,
                paths,
                wanted_kbit_per_s,
                max_delay_100us,
                max_loss_milli_percent,
                apart_from,
                records,
            }
        },
    )
}

/// A request or response of `RE-CONFIG`.
pub fn reconfiguration() -> impl Strategy<Value = Reconfiguration> {
    let streams = || vec(any::<u16>(), 0..5).prop_map(Box::from);
    prop_oneof![
        (any::<[u32; 3]>(), streams()).prop_map(|(numbers, streams)| {
            let [request, response, last_tsn] = numbers.map(Serial);
            Reconfiguration::OutgoingReset { request, response, last_tsn, streams }
        }),
        (serial(), streams())
            .prop_map(|(request, streams)| Reconfiguration::IncomingReset { request, streams }),
        serial().prop_map(|request| Reconfiguration::TsnReset { request }),
        (serial(), 0..9_u32, option::of((serial(), serial()))).prop_map(|(response, outcome, next_tsns)| {
            Reconfiguration::Response { response, outcome: Outcome(outcome), next_tsns }
        }),
        (serial(), any::<u16>()).prop_map(|(request, count)| Reconfiguration::AddOutgoing { request, count }),
        (serial(), any::<u16>()).prop_map(|(request, count)| Reconfiguration::AddIncoming { request, count }),
    ]
}

/// A chunk without user data of an established association.
pub fn control() -> impl Strategy<Value = Chunk> {
    let skipped = any::<(u16, u16)>().prop_map(|(stream, ssn)| Skipped { stream, ssn });
    let skipped_message = (any::<u16>(), any::<bool>(), serial())
        .prop_map(|(stream, unordered, mid)| SkippedMessage { stream, unordered, mid });
    let heartbeat = || bytes(50).prop_map(|info| Heartbeat { info });
    prop_oneof![
        sack().prop_map(Chunk::Sack),
        nr_sack().prop_map(|nr_sack| Chunk::NrSack(Box::new(nr_sack))),
        heartbeat().prop_map(Chunk::Heartbeat),
        heartbeat().prop_map(Chunk::HeartbeatAck),
        serial().prop_map(|cumulative_tsn| Chunk::Shutdown(Shutdown { cumulative_tsn })),
        Just(Chunk::ShutdownAck),
        vec(cause(), 1..4).prop_map(|causes| Chunk::Error(Error { causes })),
        bytes(100).prop_map(|cookie| Chunk::CookieEcho(CookieEcho { cookie })),
        Just(Chunk::CookieAck),
        (serial(), option::of(any::<u32>())).prop_map(|(lowest_tsn, marked_packets)| {
            Chunk::CongestionEcho(CongestionEcho { lowest_tsn, marked_packets })
        }),
        serial().prop_map(|lowest_tsn| Chunk::CongestionReduced(CongestionReduced { lowest_tsn })),
        (serial(), vec(skipped, 0..5)).prop_map(|(cumulative_tsn, skipped)| {
            Chunk::ForwardTsn(ForwardTsn { cumulative_tsn, skipped })
        }),
        (serial(), vec(skipped_message, 0..5)).prop_map(|(cumulative_tsn, skipped)| {
            Chunk::IForwardTsn(IForwardTsn { cumulative_tsn, skipped })
        }),
        (serial(), any::<IpAddr>(), vec(request(), 0..4)).prop_map(|(serial, address, parameters)| {
            Chunk::Asconf(Box::new(Asconf { serial, address, parameters }))
        }),
        (0..9u16, any::<u16>(), bytes(32)).prop_map(|(key, algorithm, code)| {
            let algorithm = HmacId(algorithm);
            Chunk::Auth(Box::new(Auth { key, algorithm, code, ..Auth::default() }))
        }),
        (0..90u16).prop_map(|len| Chunk::Pad(Pad { len })),
        network_control().prop_map(|control| Chunk::NetworkControl(Box::new(control))),
        vec(reconfiguration(), 1..3).prop_map(|parameters| Chunk::Reconfig(Reconfig { parameters })),
        (serial(), vec(answer(), 0..4))
            .prop_map(|(serial, parameters)| Chunk::AsconfAck(AsconfAck { serial, parameters })),
    ]
}

/// A chunk that begins or ends an association.
pub fn first_or_last() -> impl Strategy<Value = Chunk> {
    prop_oneof![
        init().prop_map(Chunk::Init),
        init().prop_map(Chunk::InitAck),
        (any::<bool>(), vec(cause(), 0..4))
            .prop_map(|(reflected_tag, causes)| Chunk::Abort(Abort { reflected_tag, causes })),
        any::<bool>().prop_map(|reflected_tag| Chunk::ShutdownComplete(ShutdownComplete { reflected_tag })),
    ]
}

/// Any chunk, with a payload of up to `longest` bytes if it has one.
pub fn chunk(longest: u32) -> impl Strategy<Value = Chunk> {
    prop_oneof![
        3 => data(longest).prop_map(Chunk::Data),
        2 => i_data(longest).prop_map(Chunk::IData),
        15 => control(),
        4 => first_or_last(),
        1 => unknown_chunk().prop_map(Chunk::Unknown),
    ]
}

/// Any packet of up to six chunks, each with a payload of up to `longest` bytes if it has one.
pub fn packet(longest: u32) -> impl Strategy<Value = Packet> {
    (any::<(u16, u16, u32)>(), vec(chunk(longest), 0..6)).prop_map(
        |((source_port, destination_port, verification_tag), chunks)| Packet {
            source_port,
            destination_port,
            verification_tag,
            chunks: chunks.into(),
            udp: None,
            may_fragment: false,
            zero_checksum: false,
        },
    )
}
