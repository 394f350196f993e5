//! tshark reads the captures of simulated connections: nothing malformed, every checksum correct, every
//! option and chunk recognised, and as many retransmissions as the sender counted.
//!
//! # Retransmissions of TCP
//!
//! tshark classifies a segment with payload or FIN that begins below the highest sequence number seen so far
//! as
//! - a *retransmission*, with *fast* and *spurious* as kinds of it, or
//! - *out of order*, if it arrives within a round-trip time of the segment that last reached further, and
//!   does not end where that one did, or
//! - a *keep-alive*, if it has at most one byte and begins just below.
//!
//! At the sender's own interface no segment is out of order, so the first two, and a keep-alive with a byte,
//! are retransmissions; together they equal the sender's count on every path. (Its window probes have no
//! byte.) The sender does not count retransmitted SYNs as data, so they are excluded.
//!
//! # Retransmissions of SCTP
//!
//! tshark remembers every TSN. Packets with a `DATA` chunk seen before are the packets that the sender
//! counted.

use super::captures::odd::{self, Hosts};
use super::captures::{Run, dissect, run, scenarios, tshark_is_missing};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Minimum number of packets for tshark of each family and form.
const MIN_PACKETS: usize = 100_000;

/// Fields that are read for every packet.
const COMMON_FIELDS: [&str; 5] =
    ["_ws.malformed", "_ws.expert.group", "ip.checksum.status", "ip.src", "ip.dst"];
/// tshark's number for the group of messages about malformed packets.
const MALFORMED_GROUP: &str = "117440512";
const CHECKSUM_CORRECT: &str = "1";

/// One packet's fields by name.
struct Line<'a> {
    fields: &'a [&'a str],
    values: &'a [String],
}

impl Line<'_> {
    fn get(&self, field: &str) -> &str {
        let position = self.fields.iter().position(|name| *name == field).expect("a requested field");
        &self.values[position]
    }

    fn has_field(&self, field: &str) -> bool {
        !self.get(field).is_empty()
    }

    fn numbers(&self, field: &str) -> impl Iterator<Item = u8> {
        self.get(field).split(',').filter_map(|digits| digits.parse().ok())
    }
}

/// Lets tshark read a capture, checks the properties of every packet, and passes each to `each`. Returns the
/// number of packets.
fn read(path: &Path, fields: &[&str], checksums: &[&str], mut each: impl FnMut(&Line<'_>)) -> usize {
    let fields = [&COMMON_FIELDS, checksums, fields].concat();
    let lines = dissect(path, &fields);
    for (number, values) in lines.iter().enumerate() {
        let line = Line { fields: &fields, values };
        let at = || format!("packet {} of {}: {values:?}", number + 1, path.display());
        assert!(!line.has_field("_ws.malformed"), "malformed: {}", at());
        assert!(
            line.get("_ws.expert.group").split(',').all(|group| group != MALFORMED_GROUP),
            "malformed: {}",
            at()
        );
        for checksum in checksums.iter().chain(&["ip.checksum.status"]) {
            assert_eq!(line.get(checksum), CHECKSUM_CORRECT, "{checksum}: {}", at());
        }
        each(&line);
    }
    lines.len()
}

const TCP_FIELDS: [&str; 7] = [
    "tcp.flags.syn",
    "tcp.len",
    "tcp.options.mptcp.subtype",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.keep_alive",
    "tcp.options.sack.count",
];

/// Retransmissions by addresses of sender and receiver.
type ByPath = BTreeMap<(String, String), u64>;

/// The sender's counts; several paths may have the same addresses.
fn sender_counts(run: &Run) -> ByPath {
    let mut counts = ByPath::new();
    for path in &run.result.flows[0].paths {
        let address = |end: &str| end.split(':').next().unwrap_or_default().to_owned();
        *counts.entry((address(&path.local), address(&path.remote))).or_default() += path.retransmissions;
    }
    counts.retain(|_, count| *count > 0);
    counts
}

/// True if tshark reports a retransmission, by the definition above.
fn is_retransmission(line: &Line<'_>) -> bool {
    line.get("tcp.flags.syn") == "0"
        && (line.has_field("tcp.analysis.retransmission")
            || line.has_field("tcp.analysis.out_of_order")
            || (line.has_field("tcp.analysis.keep_alive") && line.get("tcp.len") == "1"))
}

/// Runs scenarios, lets tshark read them and compares retransmissions. Returns the number of packets and the
/// MPTCP subtypes.
fn compare(scenarios: Vec<(&str, String)>) -> (usize, BTreeSet<u8>) {
    let (mut total, mut subtypes) = (0, BTreeSet::new());
    for (name, text) in scenarios {
        let run = run(name, &text);
        let mut again = ByPath::new();
        let mut sacks = 0;
        let read = read(&run.at_sender, &TCP_FIELDS, &["tcp.checksum.status"], |line| {
            subtypes.extend(line.numbers("tcp.options.mptcp.subtype"));
            sacks += u32::from(line.has_field("tcp.options.sack.count"));
            if is_retransmission(line) {
                *again.entry((line.get("ip.src").into(), line.get("ip.dst").into())).or_default() += 1;
            }
        });
        println!("{name}: {read} packets, {sacks} with SACK blocks, retransmissions {again:?}");
        assert_eq!(again, sender_counts(&run), "{name}: tshark's count differs from the sender's");
        let flow = &run.result.flows[0];
        assert_eq!(flow.state, "closed", "{name}");
        assert!(
            flow.paths.iter().any(|path| path.retransmissions > 10) && sacks > 50,
            "{name} has too few retransmissions"
        );
        total += read;
        std::fs::remove_file(&run.at_sender).expect("the capture exists");
    }
    (total, subtypes)
}

#[test]
fn tshark_reads_tcp_and_mptcp_connections() {
    if tshark_is_missing() {
        return;
    }
    let (tcp, none) = compare(scenarios::tcp());
    let (mptcp, subtypes) = compare(scenarios::mptcp());
    println!(
        "{tcp} packets of TCP, {mptcp} of MPTCP, none malformed, no bad checksum; subtypes {subtypes:?}"
    );
    assert!(none.is_empty());
    // MP_CAPABLE, MP_JOIN, DSS, ADD_ADDR, REMOVE_ADDR, MP_PRIO, MP_TCPRST; MP_FAIL and MP_FASTCLOSE need more
    // than a network, see below.
    assert_eq!(subtypes, BTreeSet::from([0, 1, 2, 3, 4, 5, 8]));
    assert!(tcp + mptcp >= MIN_PACKETS);
}

#[test]
fn tshark_reads_unusual_connections() {
    if tshark_is_missing() {
        return;
    }
    let subtypes = |path: &Path| {
        let mut seen = BTreeSet::new();
        read(path, &TCP_FIELDS, &[], |line| seen.extend(line.numbers("tcp.options.mptcp.subtype")));
        seen
    };

    // A middlebox removes the options: plain TCP, and no data is lost.
    let (mut hosts, path) = Hosts::new("stripped", Some(odd::strip));
    hosts.run(100);
    hosts.write(50_000);
    hosts.run(1000);
    assert!(hosts.fell_back());
    assert_eq!(hosts.finish(), 50_000);
    assert_eq!(subtypes(&path), BTreeSet::from([0]));

    // Damage on one of two paths: MP_FAIL, and the other path continues.
    let (mut hosts, path) = Hosts::new("damaged", Some(odd::damage));
    hosts.run(200);
    hosts.write(50_000);
    hosts.run(3000);
    assert_eq!(hosts.finish(), 50_000);
    assert!(subtypes(&path).contains(&6), "MP_FAIL");

    // An abort.
    let (mut hosts, path) = Hosts::new("aborted", None);
    hosts.run(200);
    hosts.write(50_000);
    hosts.run(15);
    hosts.abort();
    hosts.run(100);
    hosts.finish();
    assert!(subtypes(&path).contains(&7), "MP_FASTCLOSE");
}

const SCTP_FIELDS: [&str; 3] = ["sctp.chunk_type", "sctp.nr_sack_nr_gap_block_start", "sctp.retransmission"];
const DATA: u8 = 0;
const SACK: u8 = 3;
const NR_SACK: u8 = 16;

/// Counts of tshark's findings in a capture.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Chunks by type.
    chunks: BTreeMap<u8, u32>,
    /// Packets with gap blocks that the receiver will not discard.
    gaps: u32,
    /// Packets with a retransmitted chunk.
    again: u64,
}

/// Runs a scenario and lets tshark read the packets at the sender's host; returns their number.
fn read_association(name: &str, text: &str, checksums: &[&str]) -> usize {
    let run = run(name, text);
    let mut seen = Seen::default();
    let packets = read(&run.at_sender, &SCTP_FIELDS, checksums, |line| {
        line.numbers("sctp.chunk_type").for_each(|kind| *seen.chunks.entry(kind).or_default() += 1);
        seen.gaps += u32::from(line.has_field("sctp.nr_sack_nr_gap_block_start"));
        seen.again += u64::from(line.has_field("sctp.retransmission"));
    });
    std::fs::remove_file(&run.at_sender).expect("the capture exists");
    println!("{name}: {seen:?}");
    let flow = &run.result.flows[0];
    let counted = flow.paths.iter().map(|path| path.retransmissions + path.reinjections.expect("known"));
    let counted: u64 = counted.sum();
    // A probe retransmits a chunk, or is new data at a closed window.
    let probes: u64 = flow.paths.iter().map(|path| path.probes.expect("known")).sum();
    assert!(
        (counted..=counted + probes).contains(&seen.again),
        "{name}: {counted} and {probes} probes: {seen:?}"
    );
    assert_eq!(flow.state, "closed", "{name}");
    assert!(seen.chunks[&DATA] > 1000 && counted > 10, "{name} has too few retransmissions: {seen:?}");
    let non_renegable = name.starts_with("cmt") && !name.starts_with("cmt-renegable");
    let kinds = [SACK, NR_SACK].map(|kind| seen.chunks.contains_key(&kind));
    assert_eq!(kinds, [!non_renegable, non_renegable], "{name}");
    assert_eq!(seen.gaps > 100, non_renegable, "{name}");
    packets
}

#[test]
fn tshark_reads_sctp_plain_and_in_udp() {
    if tshark_is_missing() {
        return;
    }
    let mut totals = [0; 2];
    for (name, text) in scenarios::sctp() {
        totals[0] += read_association(name, &text, &["sctp.checksum.status"]);
        let in_udp = text.replace("sctp\"\n", "sctp\"\nudp_encapsulation = true\n");
        assert_ne!(text, in_udp);
        let checksums = ["sctp.checksum.status", "udp.checksum.status"];
        totals[1] += read_association(&format!("{name}-udp"), &in_udp, &checksums);
    }
    println!("{totals:?} packets of SCTP plain and in UDP, none malformed, no bad checksum");
    assert!(totals.iter().all(|&total| total >= MIN_PACKETS), "{totals:?}");
}
