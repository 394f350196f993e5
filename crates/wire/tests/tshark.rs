//! tshark reads captures of this crate: no malformed packet, every checksum correct, and every field as written.

mod strategies;

use anabranch_wire::icmp::Message;
use anabranch_wire::ip::network_option::NetworkOption;
use anabranch_wire::ip::option::IpOption;
use anabranch_wire::ip::source_route::SourceRoute;
use anabranch_wire::sctp::NetworkControl;
use anabranch_wire::tcp::mptcp::{self, Capable, Control, DataNumber, Join, subtype};
use anabranch_wire::tcp::{Flags, Options, Segment};
use anabranch_wire::udp::Datagram;
use anabranch_wire::{Body, Ecn, Packet, Payload, pcapng, sctp};
use core::net::{IpAddr, Ipv4Addr};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;

const PACKETS: usize = 6_000;

/// The fields that tshark prints for each packet, in this order. The first four show errors.
const FIELDS: [&str; 25] = [
    "_ws.malformed",
    "ip.checksum.status",
    "tcp.checksum.status",
    "udp.checksum.status",
    "frame.interface_name",
    "frame.time_epoch",
    "frame.len",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.window_size_value",
    "tcp.options.mss_val",
    "tcp.options.wscale.shift",
    "tcp.options.timestamp.tsval",
    "tcp.options.timestamp.tsecr",
    "tcp.options.sack_le",
    "tcp.options.sack_re",
    "tcp.options.mptcp.subtype",
    "tcp.options.mptcp.rawdataack",
    "tcp.options.mptcp.rawdataseqno",
    "tcp.options.mptcp.subflowseqno",
    "tcp.options.mptcp.datalvllen",
    "tcp.options.mptcp.sendkey",
    "tcp.options.mptcp.recvtok",
    "tcp.options.mptcp.ipv4",
    "tcp.options.mptcp.ipv6",
];

/// Indices of the first four fields.
const MALFORMED: usize = 0;
const CHECKSUMS: core::ops::Range<usize> = 1..4;
const SUBTYPES: usize = 16;

/// Joins the values of a field as tshark does.
fn list<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}

fn number(number: DataNumber) -> u64 {
    match number {
        DataNumber::Short(low) => low.into(),
        DataNumber::Long(number) => number,
    }
}

fn subtype_of(control: &Control) -> u8 {
    match control {
        Control::Capable(_) => subtype::CAPABLE,
        Control::Join(_) => subtype::JOIN,
        Control::AddAddress(_) => subtype::ADD_ADDRESS,
        Control::RemoveAddress(_) => subtype::REMOVE_ADDRESS,
        Control::Priority { .. } => subtype::PRIORITY,
        Control::Fail { .. } => subtype::FAIL,
        Control::FastClose { .. } => subtype::FAST_CLOSE,
        Control::Reset { .. } => subtype::RESET,
    }
}

/// Expected output of tshark for a segment, from the sequence number on.
fn expected_of_segment(segment: &Segment) -> Vec<String> {
    let Options { mss, window_scale, timestamps, sack, mptcp, .. } = &segment.options;
    let dss = mptcp.dss.as_ref();
    let mapping = dss.and_then(|dss| dss.mapping);
    let others = || mptcp.others.iter();
    let add = |v4: bool| {
        list(others().filter_map(move |control| match control {
            Control::AddAddress(add) if add.address.is_ipv4() == v4 => Some(add.address),
            _ => None,
        }))
    };
    vec![
        segment.seq.0.to_string(),
        segment.ack.0.to_string(),
        segment.window.to_string(),
        list(*mss),
        list(*window_scale),
        list(timestamps.map(|timestamps| timestamps.value)),
        list(timestamps.map(|timestamps| timestamps.echo)),
        list(sack.as_slice().iter().map(|(left, _)| left.0)),
        list(sack.as_slice().iter().map(|(_, right)| right.0)),
        list(dss.map(|_| subtype::DSS).into_iter().chain(others().map(subtype_of))),
        list(dss.and_then(|dss| dss.data_ack).map(number)),
        list(mapping.map(|mapping| number(mapping.dsn)).into_iter().chain(others().filter_map(|control| {
            match control {
                Control::Fail { dsn } => Some(*dsn),
                _ => None,
            }
        }))),
        list(mapping.map(|mapping| mapping.subflow_seq)),
        list(mapping.map(|mapping| mapping.len).into_iter().chain(others().filter_map(
            |control| match control {
                Control::Capable(Capable { data, .. }) => data.map(|data| data.len),
                _ => None,
            },
        ))),
        list(others().filter_map(|control| match control {
            Control::Capable(capable) => capable.sender_key,
            _ => None,
        })),
        list(others().filter_map(|control| match control {
            Control::Join(Join::Syn { token, .. }) => Some(token),
            _ => None,
        })),
        add(true),
        add(false),
    ]
}

/// Expected output of tshark for a packet.
fn expected(at: usize, packet: &Packet) -> Vec<String> {
    let good = |present: bool| String::from(if present { "1" } else { "" });
    let mut line = vec![
        String::new(),
        good(packet.source.is_ipv4()),
        good(matches!(packet.body, Body::Tcp(_))),
        good(matches!(packet.body, Body::Udp(_))),
        ["left", "right"][at % 2].into(),
        format!("{}.{:09}", at / 1_000, at % 1_000 * 1_000_000 + at),
        packet.wire_len().to_string(),
    ];
    match &packet.body {
        Body::Tcp(segment) => line.extend(expected_of_segment(segment)),
        _ => line.resize(FIELDS.len(), String::new()),
    }
    assert_eq!(line.len(), FIELDS.len());
    line
}

/// Changes a segment so that tshark can dissect it: tshark takes the form of `MP_CAPABLE` and `MP_JOIN` from
/// the control bits, and fails an internal assertion if another Multipath TCP option precedes them.
fn make_plausible(segment: &mut Segment) {
    let opening = segment.options.mptcp.others.iter().find_map(|control| {
        let flags = match control {
            Control::Capable(Capable { sender_key: None, .. }) | Control::Join(Join::Syn { .. }) => {
                Flags::SYN
            }
            Control::Capable(Capable { receiver_key: None, .. }) | Control::Join(Join::SynAck { .. }) => {
                Flags::SYN | Flags::ACK
            }
            Control::Capable(_) | Control::Join(_) => Flags::ACK,
            _ => return None,
        };
        Some((control.clone(), flags))
    });
    match opening {
        Some((control, flags)) => {
            segment.options.mptcp = mptcp::Options { dss: None, others: vec![control] }.into();
            segment.flags = flags;
        }
        None => segment.flags = segment.flags.without(Flags::SYN),
    }
}

fn packets() -> Vec<Packet> {
    let mut runner = TestRunner::deterministic();
    let strategy = prop_oneof![9 => strategies::packet(100), 1 => strategies::packet(1_448)];
    let mut packet = || strategy.new_tree(&mut runner).expect("a packet").current();
    (0..PACKETS)
        .map(|_| {
            let mut packet = packet();
            if let Body::Tcp(segment) = &mut packet.body {
                make_plausible(segment);
                // Random routes are malformed, and the fields of addresses are those behind the route.
                segment.ip_option.take_if(|option| matches!(**option, IpOption::SourceRoute(_)));
            }
            packet
        })
        .collect()
}

fn capture(path: &Path, packets: &[Packet]) {
    let file = BufWriter::new(File::create(path).expect("a capture file"));
    let mut writer = pcapng::Writer::new(file).expect("a section header");
    let interfaces = ["left", "right"].map(|name| writer.add_interface(name).expect("an interface"));
    for (at, packet) in packets.iter().enumerate() {
        let nanoseconds = at as u64 * 1_000_001;
        writer.packet(interfaces[at % 2].at(nanoseconds), packet).expect("a packet");
    }
    writer.finish().expect("the end");
}

/// Every packet's fields as tshark prints them, or `None` without tshark.
fn dissect(path: &Path, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path).args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a"]);
    for preference in [
        "ip.check_checksum:TRUE",
        "tcp.check_checksum:TRUE",
        "udp.check_checksum:TRUE",
        "tcp.relative_sequence_numbers:FALSE",
        // Random segments do not form a connection, and random payload belongs to no application protocol.
        "tcp.analyze_sequence_numbers:FALSE",
        "tcp.desegment_tcp_streams:FALSE",
        "mptcp.analyze_mappings:FALSE",
    ] {
        command.args(["-o", preference]);
    }
    command.args(["-d", "tcp.port==0-65535,data", "-d", "udp.port==0-65535,data"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("tshark: {error}"),
    };
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    Some(text.lines().map(|line| line.split('\t').map(String::from).collect()).collect())
}

#[test]
fn tshark_reads_every_field() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tcp_udp.pcapng");
    let packets = packets();
    capture(&path, &packets);
    let Some(lines) = dissect(&path, &FIELDS) else {
        println!("skipped: tshark is not installed");
        return;
    };
    assert_eq!(lines.len(), packets.len());

    let malformed = lines.iter().filter(|line| !line[MALFORMED].is_empty()).count();
    // States of a checksum: 0 is bad, 1 good; 2 (unverified) and 3 (absent) would be failures of this test.
    let bad =
        lines.iter().flat_map(|line| &line[CHECKSUMS]).filter(|state| *state != "1" && !state.is_empty());
    assert_eq!((malformed, bad.count()), (0, 0), "malformed packets and bad checksums");

    let mut seen = [0; 9];
    for (at, (line, packet)) in lines.iter().zip(&packets).enumerate() {
        for ((field, found), expected) in FIELDS.iter().zip(line).zip(expected(at, packet)) {
            assert_eq!(*found, expected, "{field} of packet {}: {packet:?}", at + 1);
        }
        for subtype in line[SUBTYPES].split(',').filter_map(|digits| digits.parse::<usize>().ok()) {
            seen[subtype] += 1;
        }
    }
    println!("{PACKETS} packets, none malformed, no bad checksum; MPTCP options by subtype: {seen:?}");
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}

#[test]
fn tshark_reads_network_options() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("network_options.pcapng");
    let request = NetworkControl { path: 1, paths: 2, ..NetworkControl::default() };
    let packets = [[[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from), [[1; 16], [2; 16]].map(IpAddr::from)]
        .map(|[source, destination]| {
            let option = IpOption::NetworkControl(NetworkOption::Request(request.clone()));
            let segment = Segment {
                ip_option: Some(Box::new(option)),
                payload: Payload::new(0, 100),
                ..Segment::default()
            };
            Packet { source, destination, ecn: Ecn::NotEct, body: Body::Tcp(segment) }
        });
    capture(&path, &packets);
    let fields = [
        "_ws.malformed",
        "ip.checksum.status",
        "tcp.checksum.status",
        "ip.hdr_len",
        "ipv6.opt.type",
        "ipv6.opt.length",
        "tcp.len",
    ];
    let Some(lines) = dissect(&path, &fields) else {
        println!("skipped: tshark is not installed");
        return;
    };
    // The option and four bytes of padding.
    assert_eq!(lines, [["", "1", "1", "48", "", "", "100"], ["", "", "1", "", "0x3e,0x01", "24,2", "100"]]);
}

#[test]
fn tshark_reads_source_routes() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("source_routes.pcapng");
    let [source, hop, next, far] = [1, 9, 8, 2].map(|host| Ipv4Addr::new(10, 0, 0, host));
    let route = IpOption::SourceRoute(SourceRoute::new(&[next, far]));
    let segment =
        Segment { ip_option: Some(Box::new(route)), payload: Payload::new(0, 100), ..Segment::default() };
    let packet =
        Packet { source: source.into(), destination: hop.into(), ecn: Ecn::NotEct, body: Body::Tcp(segment) };
    capture(&path, &[packet]);
    let fields = [
        "_ws.malformed",
        "ip.checksum.status",
        "tcp.checksum.status",
        "ip.hdr_len",
        "ip.opt.type",
        "ip.opt.len",
        "ip.opt.ptr",
        "ip.cur_rt",
        "ip.dst",
        "tcp.len",
    ];
    let Some(lines) = dissect(&path, &fields) else {
        println!("skipped: tshark is not installed");
        return;
    };
    assert_eq!(lines, [["", "1", "1", "32", "131,0", "11", "4", "10.0.0.9", "10.0.0.2", "100"]]);
}

#[test]
fn tshark_reads_icmp() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("icmp.pcapng");
    let mut runner = TestRunner::deterministic();
    let packets: Vec<_> =
        (0..500).map(|_| strategies::icmp().new_tree(&mut runner).expect("a packet").current()).collect();
    capture(&path, &packets);
    let fields =
        ["_ws.malformed", "icmp.checksum.status", "icmpv6.checksum.status", "icmp.mtu", "icmpv6.mtu"];
    let Some(lines) = dissect(&path, &fields) else {
        println!("skipped: tshark is not installed");
        return;
    };
    assert_eq!(lines.len(), packets.len());
    for (line, packet) in lines.iter().zip(&packets) {
        let Body::Icmp(message) = &packet.body else { panic!("ICMP") };
        let v4 = packet.source.is_ipv4();
        let mtu = match **message {
            Message::PacketTooBig { mtu, .. } => mtu.to_string(),
            _ => String::new(),
        };
        let good = |present: bool, value: &str| if present { value.to_owned() } else { String::new() };
        let expected = [String::new(), good(v4, "1"), good(!v4, "1"), good(v4, &mtu), good(!v4, &mtu)];
        assert_eq!(line[..], expected, "{packet:?}");
    }
}

/// Packets between dynamic ports with payload from anywhere in a stream, of any length, in all packet types
/// with a payload. Each is the first of its conversation, since tshark then looks for known protocols in the
/// payload.
fn payloads() -> Vec<Packet> {
    let mut runner = TestRunner::deterministic();
    let places = prop_oneof![
        0..100_000_u64,
        (0..200_000_u64).prop_map(|n| n * 1_448),
        any::<u32>().prop_map(u64::from)
    ];
    let lengths = prop_oneof![4 => 1..1_400_u32, 1 => 1..64_u32, 2 => Just(1_400)];
    let mut draw = || (places.new_tree(&mut runner), lengths.new_tree(&mut runner));
    (0..PACKETS as u16 * 2)
        .map(|at| {
            let (offset, len) = draw();
            let payload = Payload::new(offset.expect("a place").current(), len.expect("a length").current());
            let (source_port, destination_port) = (49_152 + at, 49_151);
            let mapping = mptcp::Mapping {
                dsn: DataNumber::Short(payload.offset as u32),
                subflow_seq: 1,
                len: payload.len as u16,
                checksum: None,
            };
            let dss = (at % 5 == 1).then(|| mptcp::Dss { mapping: Some(mapping), ..mptcp::Dss::default() });
            let options =
                Options { mptcp: mptcp::Options { dss, others: Vec::new() }.into(), ..Options::default() };
            let chunk = sctp::Data { flags: sctp::DataFlags::WHOLE, payload, ..sctp::Data::default() };
            let body = match at % 5 {
                0 | 1 => Body::Tcp(Segment {
                    source_port,
                    destination_port,
                    flags: Flags::ACK | Flags::PSH,
                    options,
                    payload,
                    ..Segment::default()
                }),
                2 => Body::Udp(Datagram { source_port, destination_port, payload }),
                _ => Body::Sctp(sctp::Packet {
                    source_port,
                    destination_port,
                    verification_tag: 1,
                    chunks: sctp::Chunk::Data(chunk).into(),
                    udp: (at % 5 == 4).then(sctp::encapsulation::Ports::default),
                    may_fragment: false,
                    zero_checksum: false,
                }),
            };
            let end = |last| Ipv4Addr::new(10, (at >> 8) as u8, at as u8, last).into();
            Packet { source: end(1), destination: end(2), ecn: Ecn::NotEct, body }
        })
        .collect()
}

#[test]
fn tshark_reads_payload_as_data() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("payload.pcapng");
    let packets = payloads();
    capture(&path, &packets);
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(&path).args(["-T", "fields", "-e", "frame.protocols"]);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: tshark is not installed");
            return;
        }
        Err(error) => panic!("tshark: {error}"),
    };
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), packets.len());
    for (line, packet) in text.lines().zip(&packets) {
        assert!(line.ends_with(":data"), "{line}: {packet:?}");
    }
}
