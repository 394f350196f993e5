//! Strategies for every value of the crate that has an encoding.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this module")]

use anabranch_wire::icmp::{Echo, Message, Quote, Unreachable};
use anabranch_wire::ip::network_option::NetworkOption;
use anabranch_wire::ip::option::IpOption;
use anabranch_wire::ip::source_route::{self, SourceRoute};
use anabranch_wire::sctp::NetworkControl;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{
    self, AddAddress, Capable, CapableData, Control, DataChecksum, DataNumber, Dss, Join, Mapping,
};
use anabranch_wire::tcp::{Flags, Options, SackBlocks, Segment, Timestamps};
use anabranch_wire::{Body, Ecn, Packet, Payload, udp};
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

/// A data number of either length.
pub fn data_number() -> impl Strategy<Value = DataNumber> {
    prop_oneof![any::<u32>().prop_map(DataNumber::Short), any::<u64>().prop_map(DataNumber::Long)]
}

/// A checksum, or none.
fn data_checksum() -> impl Strategy<Value = Option<DataChecksum>> {
    option::of(any::<u16>().prop_map(DataChecksum::Known))
}

/// A mapping, infinite ones included.
pub fn mapping() -> impl Strategy<Value = Mapping> {
    (data_number(), any::<u32>(), any::<u16>(), data_checksum())
        .prop_map(|(dsn, subflow_seq, len, checksum)| Mapping { dsn, subflow_seq, len, checksum })
}

/// A data sequence signal.
pub fn dss() -> impl Strategy<Value = Dss> {
    (option::of(data_number()), option::of(mapping()), any::<bool>())
        .prop_map(|(data_ack, mapping, data_fin)| Dss { data_ack, mapping, data_fin })
}

/// `MP_CAPABLE` in each of its forms.
pub fn capable() -> impl Strategy<Value = Capable> {
    let data = (any::<u16>(), data_checksum()).prop_map(|(len, checksum)| CapableData { len, checksum });
    let form = (0..4u8, any::<u64>(), any::<u64>(), data);
    (0..16u8, any::<[bool; 3]>(), form).prop_map(|(version, flags, (form, sender, receiver, data))| Capable {
        version,
        checksum_required: flags[0],
        no_join_here: flags[1],
        hmac_sha256: flags[2],
        sender_key: (form >= 1).then_some(sender),
        receiver_key: (form >= 2).then_some(receiver),
        data: (form >= 3).then_some(data),
    })
}

/// `MP_JOIN` in each of its forms.
pub fn join() -> impl Strategy<Value = Join> {
    prop_oneof![
        any::<(bool, u8, u32, u32)>().prop_map(|(backup, address_id, token, nonce)| Join::Syn {
            backup,
            address_id,
            token,
            nonce
        }),
        any::<(bool, u8, u64, u32)>().prop_map(|(backup, address_id, hmac, nonce)| Join::SynAck {
            backup,
            address_id,
            hmac,
            nonce
        }),
        any::<[u8; 20]>().prop_map(|hmac| Join::Ack { hmac }),
    ]
}

/// `ADD_ADDR` of both families, with and without port, announcement and echo.
pub fn add_address() -> impl Strategy<Value = AddAddress> {
    (any::<u8>(), any::<IpAddr>(), option::of(any::<u16>()), option::of(any::<u64>()))
        .prop_map(|(address_id, address, port, hmac)| AddAddress { address_id, address, port, hmac })
}

/// Any Multipath TCP option but DSS.
pub fn control() -> impl Strategy<Value = Control> {
    prop_oneof![
        capable().prop_map(Control::Capable),
        join().prop_map(Control::Join),
        add_address().prop_map(Control::AddAddress),
        vec(any::<u8>(), 1..12).prop_map(Control::RemoveAddress),
        any::<bool>().prop_map(|backup| Control::Priority { backup }),
        any::<u64>().prop_map(|dsn| Control::Fail { dsn }),
        any::<u64>().prop_map(|receiver_key| Control::FastClose { receiver_key }),
        (0..16u8, any::<u8>()).prop_map(|(flags, reason)| Control::Reset { flags, reason }),
    ]
}

/// Up to four SACK blocks.
pub fn sack() -> impl Strategy<Value = SackBlocks> {
    vec((serial(), serial()), 0..=SackBlocks::MAX).prop_map(|blocks| {
        let mut sack = SackBlocks::default();
        for (left, right) in blocks {
            sack.push(left, right);
        }
        sack
    })
}

/// Options that fit into a header: surplus ones are left out.
pub fn options() -> impl Strategy<Value = Options> {
    let plain = (option::of(any::<u16>()), option::of(0..=14u8), any::<bool>());
    let timestamps = option::of(any::<(u32, u32)>());
    let multipath = (option::of(dss()), vec(control(), 0..4));
    // Half of all segments have no SACK, since hardly any other option fits next to a SACK.
    let sack = prop_oneof![Just(SackBlocks::default()), sack()];
    (plain, timestamps, sack, multipath).prop_map(|(plain, timestamps, sack, (dss, others))| {
        let (mss, window_scale, sack_permitted) = plain;
        let timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
        let mptcp = mptcp::Options { dss, others }.into();
        let mut options = Options { mss, window_scale, sack_permitted, timestamps, sack, mptcp };
        while options.wire_len() > Options::MAX_LEN {
            if options.mptcp.others.pop().is_none() {
                options.sack = SackBlocks::default();
                options.timestamps = None;
            }
        }
        options
    })
}

/// An option of network control that fits into the header of either version of IP.
pub fn network_option() -> impl Strategy<Value = NetworkOption> {
    let path = (1..=NetworkControl::MAX_PATHS).prop_flat_map(|paths| (0..paths, Just(paths)));
    let request = (any::<(bool, u32, u32, u16, u16, u32)>(), path).prop_map(
        |(
            (is_shared, association, wanted_kbit_per_s, max_delay_100us, max_loss_milli_percent, apart_from),
            path,
        )| {
            let (path, paths) = path;
            NetworkOption::Request(NetworkControl {
                is_shared,
                association,
                path,
                paths,
                wanted_kbit_per_s,
                max_delay_100us,
                max_loss_milli_percent,
                apart_from,
                ..NetworkControl::default()
            })
        },
    );
    prop_oneof![request, vec(any::<u8>(), 0..=38).prop_map(NetworkOption::Invalid)]
}

/// An option of an IP header. A source route, which may be invalid, is for IPv4 only.
pub fn ip_option() -> impl Strategy<Value = IpOption> {
    let addresses = vec(any::<[u8; 4]>(), 1..=source_route::MAX_ADDRESSES);
    let route = prop_oneof![
        addresses.prop_map(|all| SourceRoute::new(&all.into_iter().map(Ipv4Addr::from).collect::<Vec<_>>())),
        vec(any::<u8>(), 0..=38).prop_map(|data| SourceRoute::of(&data)),
    ];
    prop_oneof![network_option().prop_map(IpOption::NetworkControl), route.prop_map(IpOption::SourceRoute)]
}

/// Any segment with a payload of up to `longest` bytes.
pub fn segment(longest: u32) -> impl Strategy<Value = Segment> {
    let numbers = (any::<(u16, u16, u8, u16, u16)>(), serial(), serial());
    (numbers, options(), payload(longest), option::weighted(0.2, ip_option())).prop_map(
        |((fixed, seq, ack), options, payload, ip_option)| {
            let (source_port, destination_port, flags, window, urgent) = fixed;
            Segment {
                source_port,
                destination_port,
                seq,
                ack,
                flags: Flags(flags),
                window,
                urgent,
                options,
                payload,
                ip_option: ip_option.map(Box::new),
            }
        },
    )
}

/// Any datagram with a payload of up to `longest` bytes.
pub fn datagram(longest: u32) -> impl Strategy<Value = udp::Datagram> {
    (any::<u16>(), any::<u16>(), payload(longest)).prop_map(|(source_port, destination_port, payload)| {
        udp::Datagram { source_port, destination_port, payload }
    })
}

/// Two addresses of one family.
pub fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(a, b)| (a.into(), b.into())),
        any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(a, b)| (a.into(), b.into())),
    ]
}

/// An ECN field.
pub fn ecn() -> impl Strategy<Value = Ecn> {
    any::<u8>().prop_map(Ecn::from_bits)
}

/// A TCP or UDP packet with a payload of up to `longest` bytes.
pub fn packet(longest: u32) -> impl Strategy<Value = Packet> {
    let body = prop_oneof![
        4 => segment(longest).prop_map(Body::Tcp),
        1 => datagram(longest).prop_map(Body::Udp),
    ];
    (addresses(), ecn(), body).prop_map(|((source, destination), ecn, mut body)| {
        if let (Body::Tcp(segment), IpAddr::V6(_)) = (&mut body, source) {
            segment.ip_option.take_if(|option| matches!(**option, IpOption::SourceRoute(_)));
        }
        Packet { source, destination, ecn, body }
    })
}

/// An ICMP message that the destination of a packet sends back.
pub fn icmp() -> impl Strategy<Value = Packet> {
    let what = prop_oneof![
        Just(Unreachable::Network),
        Just(Unreachable::Host),
        Just(Unreachable::Protocol),
        Just(Unreachable::Port),
        Just(Unreachable::Prohibited),
        (6..=12u8).prop_map(Unreachable::Other),
    ];
    let echo = (any::<(u16, u16)>(), vec(any::<u8>(), 0..100))
        .prop_map(|((identifier, sequence), data)| Echo { identifier, sequence, data });
    let fields = (0..5u8, what, any::<u16>(), any::<bool>(), echo);
    (packet(2_000), ecn(), fields).prop_map(|(lost, ecn, (kind, what, mtu, reassembly, echo))| {
        let quote = Quote::of(&lost);
        let message = match kind {
            0 => Message::Unreachable { what, quote },
            1 => Message::PacketTooBig { mtu: mtu.into(), quote },
            2 => Message::TimeExceeded { reassembly, quote },
            3 => Message::EchoRequest(echo),
            _ => Message::EchoReply(echo),
        };
        Packet {
            source: lost.destination,
            destination: lost.source,
            ecn,
            body: Body::Icmp(Box::new(message)),
        }
    })
}
