//! Tests with whole captures: known connections are found in captures of every format, place and length.

mod traffic;

use anabranch_capture::{ConnectionReport, Kind, Report, read, read_bytes};
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{self, Capable, Control};
use anabranch_wire::tcp::{Flags, Options, Segment};
use anabranch_wire::{Body, Packet};
use std::path::PathBuf;
use traffic::{PIECE_LEN, Timed, association, bytes, data, handshake, pcap, pcapng, segment, two_subflows};

fn report(bytes: Vec<u8>) -> Report {
    read_bytes("test", bytes).unwrap_or_else(|error| panic!("{error}"))
}

fn only(report: &Report) -> &ConnectionReport {
    assert_eq!(report.connections.len(), 1, "{report:#?}");
    &report.connections[0]
}

fn kinds(connection: &ConnectionReport) -> Vec<Kind> {
    connection.oddities.iter().map(|oddity| oddity.kind).collect()
}

/// Byte counts of the client's data on each subflow: sent, distinct, retransmitted, reinjected.
fn client_bytes(connection: &ConnectionReport) -> Vec<[u64; 4]> {
    let to_server = connection.subflows.iter().map(|subflow| &subflow.directions[0]);
    to_server.map(|way| [way.bytes, way.new_bytes, way.retransmitted_bytes, way.reinjected_bytes]).collect()
}

const CLIENT_BYTES: [[u64; 4]; 2] = [[11_000, 10_000, 1_000, 0], [11_000, 11_000, 0, 1_000]];

#[test]
fn subflows_are_joined_by_their_token() {
    let report = report(pcapng(&two_subflows(), 0));
    let connection = only(&report);
    assert_eq!((connection.protocol, connection.version, connection.has_handshake), ("mptcp", Some(1), true));
    assert_eq!(connection.ends, ["10.0.0.1:40000", "10.0.0.2:80"]);
    assert!(connection.tokens.iter().all(Option::is_some));
    assert_eq!((&connection.unknown, kinds(connection)), (&vec![], vec![]));
    assert_eq!(client_bytes(connection), CLIENT_BYTES);
    let data = &connection.directions[0];
    assert_eq!((data.bytes, data.reinjected_bytes, data.unseen), (20_000, 1_000, 0));
    assert_eq!(data.acknowledged_bytes, Some(20_000));
    assert_eq!(data.window_bytes, Some(1_000 << 7));
    assert_eq!(data.pieces.len(), 22);
    assert_eq!(data.pieces.iter().filter(|piece| piece.is_repeated).count(), 2);
    let way = &connection.subflows[0].directions[0];
    assert_eq!((way.position, way.mss, way.timeouts), (Some("sender"), None, 0));
    assert!((way.rtt_min_s.unwrap() - 0.02).abs() < 1e-4);
}

#[test]
fn formats_and_kept_lengths_give_the_same_connection() {
    let expected = report(pcapng(&two_subflows(), 0));
    for bytes in [pcapng(&two_subflows(), 90), pcap(&two_subflows())] {
        let found = report(bytes);
        assert_eq!(client_bytes(only(&found)), client_bytes(only(&expected)));
        assert_eq!(only(&found).tokens, only(&expected).tokens);
    }
}

#[test]
fn two_files_give_the_report_of_one_file() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let files: Vec<PathBuf> = [0, 1]
        .map(|interface| {
            let packets: Vec<Timed> =
                two_subflows().into_iter().filter(|timed| timed.interface == interface).collect();
            let file = folder.join(format!("interface-{interface}.pcapng"));
            std::fs::write(&file, pcapng(&packets, 0)).expect("a writable folder");
            file
        })
        .to_vec();
    let found = read(&files, &mut |_, _| true).unwrap();
    assert_eq!(client_bytes(only(&found)), CLIENT_BYTES);
    assert_eq!(only(&found).directions[0].reinjected_bytes, 1_000);
    assert!(matches!(read(&files, &mut |_, _| false), Err(anabranch_capture::Error::Stopped)));
    assert!(matches!(read(&[], &mut |_, _| true), Err(anabranch_capture::Error::Files(0))));
}

#[test]
fn numbers_join_subflows_without_handshake() {
    let later: Vec<Timed> = two_subflows().into_iter().filter(|timed| timed.at_ns >= 1_200_000_000).collect();
    let found = report(pcapng(&later, 0));
    let connection = only(&found);
    assert!(!connection.has_handshake);
    assert_eq!(connection.subflows.iter().map(|subflow| subflow.joined).collect::<Vec<_>>(), ["numbers"; 2]);
    assert_eq!(client_bytes(connection), CLIENT_BYTES);
    for value in ["key of the client", "key of the server", "window scale of the server of subflow 2"] {
        assert!(connection.unknown.iter().any(|unknown| unknown == value), "{:?}", connection.unknown);
    }
    assert_eq!(connection.directions[0].waits.window_s, None);
}

#[test]
fn token_joins_connection_found_by_sequence() {
    // The capture begins after the first handshake and contains the second one.
    let later: Vec<Timed> = [data(1_150_000_000, 0, (0, 0)).to_vec(), handshake(1_160_000_000, 1)].concat();
    let later = [later, data(1_300_000_000, 1, (0, 1)).to_vec()].concat();
    let found = report(pcapng(&later, 0));
    let connection = only(&found);
    let joined: Vec<&str> = connection.subflows.iter().map(|subflow| subflow.joined).collect();
    assert_eq!((joined, connection.directions[0].bytes), (vec!["numbers", "token"], 2_000));
    assert!(connection.tokens[1].is_some());
}

#[test]
fn copies_at_the_receiver_count_as_arrivals() {
    let mut all = Vec::new();
    for timed in two_subflows().into_iter().filter(|timed| timed.interface == 0) {
        let Body::Tcp(sent) = &timed.packet.body else { panic!("TCP") };
        let is_reply = sent.source_port == 80;
        let is_lost = sent.seq == Serial(100 + 5 * PIECE_LEN) && !is_reply;
        let other = Timed {
            at_ns: if is_reply { timed.at_ns - traffic::DELAY_NS } else { timed.at_ns + traffic::DELAY_NS },
            interface: 1,
            ..timed.clone()
        };
        all.push(timed);
        all.extend((!is_lost).then_some(other));
    }
    all.sort_by_key(|timed| timed.at_ns);
    let found = report(pcapng(&all, 0));
    let way = &only(&found).subflows[0].directions[0];
    assert_eq!((way.bytes, way.retransmitted_bytes), (11_000, 1_000));
    assert_eq!((way.arrived_bytes, way.arrived_new_bytes), (Some(10_000), Some(9_000)));
    assert_eq!((way.position, way.unseen_bytes), (Some("sender"), 0));
}

#[test]
fn copies_of_a_packet_count_once() {
    let mut capture = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 101] {
        capture.extend(word.to_be_bytes());
    }
    for (number, Timed { at_ns, packet, .. }) in two_subflows().iter().enumerate() {
        let mut bytes = bytes(packet);
        bytes[4..6].copy_from_slice(&(number as u16 + 1).to_be_bytes());
        for _ in 0..2 {
            let (seconds, micros) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000 / 1_000);
            for word in [seconds as u32, micros as u32, bytes.len() as u32, bytes.len() as u32] {
                capture.extend(word.to_be_bytes());
            }
            capture.extend(&bytes);
        }
    }
    let found = report(capture);
    assert_eq!(client_bytes(only(&found)), CLIENT_BYTES);
    assert_eq!(only(&found).subflows[0].copies + only(&found).subflows[1].copies, 50);
}

#[test]
fn unreadable_rest_of_a_file_is_reported() {
    let whole = pcapng(&two_subflows(), 0);
    let found = report(whole[..whole.len() - 3].to_vec());
    assert_eq!(
        found.files[0].broken.as_deref(),
        Some("is unreadable behind packet 49: it ends within a packet, or a length field is wrong")
    );
    let mut damaged = whole;
    let at = damaged.len() / 2 / 4 * 4;
    damaged[at..at + 400].fill(0xff);
    assert!(report(damaged).files[0].broken.is_some());
}

#[test]
fn other_files_are_refused_in_one_sentence() {
    let refused = |bytes: &[u8]| read_bytes("x", bytes.to_vec()).unwrap_err().to_string();
    assert_eq!(refused(b""), "x is empty, not a capture");
    assert_eq!(refused(b"title = 'a scenario'"), "x is no capture in pcap or pcapng format");
    assert_eq!(refused(&[0x1f, 0x8b, 8, 0, 0]), "x is compressed with gzip; unpack it first with gunzip");
    assert!(
        refused(&[0x0a, 0x0d, 0x0d, 0x0a, 1])
            .starts_with("x begins like a capture, but its header is unreadable")
    );
    assert_eq!(refused(&pcapng(&[], 0)), "x contains no packet of TCP or SCTP in 0 records: it ends there");
    let mut arp = pcap(&two_subflows()[..2]);
    arp[24 + 16 + 12 + 1] = 6;
    let second = 24 + 16 + 96.min(14 + bytes(&two_subflows()[0].packet).len());
    arp[second + 16 + 12 + 1] = 6;
    assert_eq!(
        refused(&arp),
        "x contains no packet of TCP or SCTP in 2 records: 2 are frames without an IP packet"
    );
    assert_eq!(
        read(&[std::env::temp_dir()], &mut |_, _| true).unwrap_err().to_string(),
        format!("{} is a folder, not a capture", std::env::temp_dir().display())
    );
}

/// A segment of path 0 with control options.
fn control(at_ns: u64, is_reply: bool, flags: Flags, others: Vec<Control>) -> Timed {
    let options = Options { mptcp: mptcp::Options { dss: None, others }.into(), ..Options::default() };
    let (seq, ack) = if is_reply { (500, 100) } else { (100, 500) };
    let sent = Segment { flags, seq: Serial(seq), ack: Serial(ack), options, ..Segment::default() };
    Timed { at_ns, interface: 0, packet: segment(0, is_reply, sent) }
}

#[test]
fn control_options_are_oddities() {
    let mut all = handshake(0, 0);
    let later = [
        (false, Flags::ACK, Control::Priority { backup: true }),
        (true, Flags::ACK, Control::Fail { dsn: 7 }),
        (true, Flags::ACK, Control::RemoveAddress(vec![3])),
        (true, Flags::RST, Control::Reset { flags: 0, reason: 6 }),
    ];
    for (number, (is_reply, flags, option)) in later.into_iter().enumerate() {
        all.push(control(1_000_000_000 + number as u64, is_reply, flags, vec![option]));
    }
    let found = report(pcapng(&all, 0));
    let connection = only(&found);
    assert_eq!(kinds(connection), [Kind::Priority, Kind::Fail, Kind::AddressRemoved, Kind::Reset]);
    assert!(connection.oddities[3].text.contains("middlebox interference"));
    assert!(connection.subflows[0].is_reset);
}

#[test]
fn removed_options_are_reported_as_fall_back() {
    let without = |timed: &Timed| {
        let Body::Tcp(mut plain) = timed.packet.body.clone() else { panic!("TCP") };
        plain.options.mptcp = mptcp::Options::default().into();
        Timed { packet: Packet { body: Body::Tcp(plain), ..timed.packet.clone() }, ..timed.clone() }
    };
    // The SYN/ACK lacks the option of Multipath TCP.
    let mut all = handshake(0, 0);
    all[1] = without(&all[1]);
    let found = report(pcapng(&all, 0));
    assert_eq!((kinds(only(&found)), only(&found).subflows[0].has_fallen_back), (vec![Kind::FallBack], true));
    // The data segments lack the options of Multipath TCP.
    let mut all = handshake(0, 0);
    all.extend(data(1_000_000_000, 0, (0, 0)).iter().map(without));
    let found = report(pcapng(&all, 0));
    assert_eq!(kinds(only(&found)), [Kind::FallBack]);
    assert_eq!(
        (only(&found).directions[0].bytes, only(&found).subflows[0].directions[0].unmapped_bytes),
        (1_000, 1_000)
    );
    // The SYN gets no answer, and the client retransmits it without the option.
    let syn = handshake(0, 0)[0].clone();
    let again = Timed { at_ns: 3_000_000_000, ..without(&syn) };
    let found = report(pcapng(&[syn, again], 0));
    assert_eq!(kinds(only(&found)), [Kind::NoAnswer, Kind::FallBack]);
}

#[test]
fn refused_and_unanswered_syns_differ() {
    let syn = || handshake(0, 0)[0].clone();
    let refusal = control(20_000_000, true, Flags::RST | Flags::ACK, Vec::new());
    let found = report(pcapng(&[syn(), refusal], 0));
    assert_eq!(kinds(only(&found)), [Kind::Refused]);
    let found = report(pcapng(&[syn()], 0));
    assert_eq!(kinds(only(&found)), [Kind::NoAnswer]);
    assert!(!only(&found).subflows[0].is_open);
}

#[test]
fn same_ports_can_carry_a_new_connection() {
    let mut all = [handshake(0, 0), data(100_000_000, 0, (0, 0)).to_vec()].concat();
    let mut again = handshake(5_000_000_000, 0);
    for timed in &mut again {
        let Body::Tcp(segment) = &mut timed.packet.body else { panic!("TCP") };
        segment.seq = segment.seq.add(77_777);
        segment.ack = segment.ack.add(77_777);
    }
    all.extend(again);
    assert_eq!(report(pcapng(&all, 0)).connections.len(), 2);
}

#[test]
fn association_has_paths_and_retransmissions() {
    let found = report(pcapng(&association(), 0));
    let connection = only(&found);
    assert_eq!((connection.protocol, connection.has_handshake, connection.unknown.len()), ("sctp", true, 0));
    assert_eq!(client_bytes(connection), [[3_000, 3_000, 0, 0], [4_000, 3_000, 1_000, 1_000]]);
    assert_eq!(
        (connection.directions[0].bytes, connection.directions[0].acknowledged_bytes),
        (6_000, Some(6_000))
    );
    assert_eq!(connection.tokens, [Some("00000047".to_owned()), Some("00000048".to_owned())]);
    // Without the handshake, the two directions are assigned to one association by their paths.
    let found = report(pcapng(&association()[2..], 0));
    assert_eq!(client_bytes(only(&found)), [[4_000, 3_000, 1_000, 1_000], [3_000, 3_000, 0, 0]]);
    assert!(!only(&found).has_handshake);
}

#[test]
fn number_of_conversations_is_bounded() {
    let mut all = two_subflows();
    let syn = handshake(0, 0)[0].clone();
    for number in 0..40_000_u32 {
        let Body::Tcp(mut segment) = syn.packet.body.clone() else { panic!("TCP") };
        segment.source_port = number as u16;
        let source = [172, 16, (number >> 16) as u8, 1].into();
        let packet = Packet { source, body: Body::Tcp(segment), ..syn.packet.clone() };
        all.push(Timed { at_ns: 3_000_000_000 + u64::from(number), packet, ..syn });
    }
    let found = report(pcapng(&all, 0));
    assert_eq!(client_bytes(&found.connections[0]), CLIENT_BYTES);
    assert_eq!(found.connections.len(), 1_000);
    assert_eq!(found.left_out + 1_000, 40_001);
}

#[test]
fn tokens_are_derived_from_keys() {
    let capable = Capable { version: 1, sender_key: Some(0), receiver_key: Some(1), ..Capable::default() };
    let found = report(pcapng(&[control(0, false, Flags::ACK, vec![Control::Capable(capable)])], 0));
    assert_eq!(only(&found).tokens[0].as_deref(), Some("af5570f5"));
}
