//! tshark reads SCTP packets of this crate, plain and over UDP.

mod sctp_strategies;

use anabranch_wire::sctp::{Cause, Chunk, GapBlock, Packet, Parameter, UDP_PORT, encapsulation};
use anabranch_wire::{Body, Ecn, pcapng};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

/// Number of packets per form.
const PACKETS: usize = 5_000;

/// Fields that are compared, one line per packet.
const FIELDS: [&str; 13] = [
    "udp.dstport",
    "sctp.chunk_type",
    "sctp.checksum.status",
    "udp.checksum.status",
    "ip.checksum.status",
    "_ws.malformed",
    "sctp.data_tsn_raw",
    "sctp.nr_sack_gap_block_start",
    "sctp.nr_sack_gap_block_end",
    "sctp.nr_sack_nr_gap_block_start",
    "sctp.nr_sack_nr_gap_block_end",
    "sctp.nr_sack_duplicate_tsn",
    "sctp.sack_gap_block_start",
];

fn tshark(arguments: &[&str]) -> Option<Output> {
    match Command::new("tshark").args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("tshark: {error}"),
    }
}

/// Chunk types that tshark dissects but that have random contents in this test: `AUTH`, `PKTDROP`, `PAD`.
const ONLY_TSHARK_READS: [u8; 3] = [0x0f, 0x81, 0x84];

/// Packets with random contents in both families.
fn packets() -> Vec<anabranch_wire::Packet> {
    let mut runner = TestRunner::deterministic();
    let strategy = (sctp_strategies::packet(200), any::<bool>());
    let readable =
        |packet: &Packet| !packet.chunks.iter().flat_map(kinds).any(|kind| ONLY_TSHARK_READS.contains(&kind));
    std::iter::from_fn(|| Some(strategy.new_tree(&mut runner).expect("a packet").current()))
        .filter(|(packet, _)| readable(packet))
        .map(|(sctp, v6)| {
            let (source, destination): (IpAddr, IpAddr) = if v6 {
                (
                    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(),
                    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).into(),
                )
            } else {
                (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into())
            };
            anabranch_wire::Packet { source, destination, ecn: Ecn::Ect0, body: Body::Sctp(sctp) }
        })
        .take(PACKETS)
        .collect()
}

/// Writes every packet twice: plain, then over UDP.
fn capture(path: &Path, packets: &[anabranch_wire::Packet]) {
    let file = std::io::BufWriter::new(std::fs::File::create(path).expect("a capture file"));
    let mut writer = pcapng::Writer::new(file).expect("a section header");
    let plain = writer.add_interface("plain").expect("an interface");
    let over_udp = writer.add_interface("over UDP").expect("an interface");
    for (at, packet) in (0..).zip(packets) {
        writer.packet(plain.at(at * 1_000), packet).expect("a packet");
        let mut in_udp = packet.clone();
        let Body::Sctp(sctp) = &mut in_udp.body else { panic!("SCTP") };
        sctp.udp = Some(encapsulation::Ports::default());
        writer.packet(over_udp.at(at * 1_000 + 500), &in_udp).expect("a packet");
    }
    writer.finish().expect("the end");
}

/// Expected output of tshark for a field with several values.
fn list<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}

/// Causes within a chunk.
fn causes(chunk: &Chunk) -> Vec<&Cause> {
    match chunk {
        Chunk::Abort(abort) => abort.causes.iter().collect(),
        Chunk::Error(error) => error.causes.iter().collect(),
        Chunk::AsconfAck(ack) => {
            let nested = ack.parameters.iter().filter_map(|parameter| match parameter {
                Parameter::ErrorCause { causes, .. } => Some(causes),
                _ => None,
            });
            nested.flatten().collect()
        }
        _ => vec![],
    }
}

/// The type of a chunk, and those of the chunks that its causes contain: tshark shows both.
fn kinds(chunk: &Chunk) -> Vec<u8> {
    let nested = causes(chunk).into_iter().filter_map(|cause| match cause {
        Cause::UnrecognizedChunk(bytes) => Some(bytes[0]),
        _ => None,
    });
    [chunk.kind()].into_iter().chain(nested).collect()
}

/// The expected line of tshark.
fn expected(packet: &anabranch_wire::Packet, over_udp: bool) -> Vec<String> {
    let Body::Sctp(Packet { chunks, .. }) = &packet.body else { panic!("SCTP") };
    let v6 = packet.source.is_ipv6();
    let nr_sacks =
        || chunks.iter().filter_map(|chunk| if let Chunk::NrSack(nr) = chunk { Some(nr) } else { None });
    let (start, end) = (|gap: &GapBlock| gap.start, |gap: &GapBlock| gap.end);
    let tsn = |chunk: &Chunk| match chunk {
        Chunk::Data(data) => Some(data.tsn.0),
        Chunk::IData(data) => Some(data.tsn.0),
        _ => None,
    };
    let sack_starts =
        chunks.iter().filter_map(|chunk| if let Chunk::Sack(sack) = chunk { Some(sack) } else { None });
    let good = |there: bool| if there { "1".to_owned() } else { String::new() };
    vec![
        if over_udp { UDP_PORT.to_string() } else { String::new() },
        list(chunks.iter().flat_map(kinds)),
        good(true),
        good(over_udp),
        good(!v6),
        String::new(),
        list(chunks.iter().filter_map(tsn)),
        list(nr_sacks().flat_map(|nr| &nr.sack.gaps).map(start)),
        list(nr_sacks().flat_map(|nr| &nr.sack.gaps).map(end)),
        list(nr_sacks().flat_map(|nr| &nr.nr_gaps).map(start)),
        list(nr_sacks().flat_map(|nr| &nr.nr_gaps).map(end)),
        list(nr_sacks().flat_map(|nr| nr.sack.duplicates.as_slice()).map(|tsn| tsn.0)),
        list(sack_starts.flat_map(|sack| &sack.gaps).map(start)),
    ]
}

#[test]
fn tshark_reads_every_chunk_plain_and_in_udp() {
    if tshark(&["--version"]).is_none() {
        println!("skipped: tshark is not installed");
        return;
    }
    let packets = packets();
    let kinds: BTreeSet<u8> = packets
        .iter()
        .flat_map(|packet| if let Body::Sctp(sctp) = &packet.body { &sctp.chunks[..] } else { &[] })
        .map(Chunk::kind)
        .collect();
    assert!(
        (0..=14).chain([0x10, 0x40, 0x80, 0x82, 0xc0, 0xc1, 0xc2]).all(|kind| kinds.contains(&kind)),
        "{kinds:?}"
    );

    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tshark_sctp.pcapng");
    capture(&path, &packets);
    let file = path.to_str().expect("a path in UTF-8");
    let mut arguments = vec!["-n", "-r", file, "-T", "fields", "-E", "separator=;"];
    for option in [
        "sctp.checksum:CRC 32c",
        "udp.check_checksum:TRUE",
        "ip.check_checksum:TRUE",
        "sctp.ulp_dissection:FALSE",
        "sctp.reassembly:FALSE",
        "sctp.tsn_analysis:FALSE",
    ] {
        arguments.extend(["-o", option]);
    }
    for field in FIELDS {
        arguments.extend(["-e", field]);
    }
    let output = tshark(&arguments).expect("tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 2 * packets.len());
    for (packet, lines) in packets.iter().zip(lines.chunks(2)) {
        for (line, over_udp) in lines.iter().zip([false, true]) {
            let found: Vec<&str> = line.split(';').collect();
            for ((name, found), expected) in FIELDS.iter().zip(found).zip(expected(packet, over_udp)) {
                assert_eq!(found, expected, "{name} of {packet:?}, over UDP: {over_udp}");
            }
        }
    }
    println!("{} packets with chunks of {} types", lines.len(), kinds.len());
}
