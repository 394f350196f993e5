//! Each end reads exactly the bytes that the other wrote, although the network loses, duplicates, reorders and damages
//! the encoded packets.
//!
//! `cargo test --release -p anabranch-host --test bytes -- --ignored --nocapture` transfers 100 MB each way.

mod transfer;

use anabranch_endpoint::Reliability;
use proptest::prelude::*;
use transfer::{Faults, Load, Outcome, Protocol, Settings};

/// Bytes each way in the default tests and in the ignored ones.
const DEFAULT_BYTES: u64 = 5_000_000;
const LONG_RUN_BYTES: u64 = 100_000_000;

/// Faults of the network in all transfers.
const FAULTS: Faults = Faults { loss: 0.02, duplication: 0.01, reordering: 0.05, damage: 0.001 };

/// Number of packets that the ends of transfers named "together" handle before they answer.
const TOGETHER: u8 = 8;

/// Settings and load of a transfer by its name.
fn case(name: &str, bytes: u64) -> (Settings, Load) {
    let messages = |lengths, unordered| Load::Messages {
        bytes,
        lengths,
        streams: 4,
        unordered,
        reliability: Reliability::Full,
    };
    let sctp = |i_data| Protocol::Sctp { i_data, encapsulated: false };
    let (protocol, load) = match name {
        "tcp" => (Protocol::Tcp, Load::Stream { bytes }),
        "mptcp" => (Protocol::Mptcp { checksum: false }, Load::Stream { bytes }),
        "mptcp with checksums" => (Protocol::Mptcp { checksum: true }, Load::Stream { bytes }),
        "sctp ordered" => (sctp(false), messages((1, 1400), 0.0)),
        "sctp unordered" => (sctp(false), messages((1, 1400), 1.0)),
        "sctp fragmented" => (sctp(false), messages((1, 60_000), 0.5)),
        "sctp interleaved" => (sctp(true), messages((1, 60_000), 0.5)),
        "sctp over udp" => (Protocol::Sctp { i_data: false, encapsulated: true }, messages((1, 9000), 0.5)),
        "sctp authenticated" => (Protocol::SctpAuthenticated { i_data: false }, messages((1, 9000), 0.5)),
        "cmt-sctp" | "cmt-sctp together" => (Protocol::CmtSctp { i_data: false }, messages((1, 9000), 0.5)),
        "cmt-sctp interleaved" => (Protocol::CmtSctp { i_data: true }, messages((1, 60_000), 0.5)),
        _ => unreachable!("{name}"),
    };
    let together = if name.ends_with("together") { TOGETHER } else { 1 };
    (Settings { together, ..Settings::new(protocol) }, load)
}

fn transfer(name: &str, bytes: u64) -> Outcome {
    let (settings, load) = case(name, bytes);
    let outcome = transfer::run(&settings, [load, load], FAULTS, 1, 100_000.0);
    let [sent, arrived] = outcome.packets;
    let megabytes = outcome.contents[0].0.bytes + outcome.contents[1].0.bytes;
    println!(
        "{name}: {:.1} MB in {:.1} s of virtual time, {sent} packets sent, {arrived} arrived, {} refused, by path {:?}",
        megabytes as f64 / 1e6,
        outcome.seconds,
        outcome.refused,
        outcome.carried,
    );
    outcome.check();
    assert!(outcome.contents.iter().all(|(written, _)| written.bytes >= bytes));
    assert!(outcome.refused > 0, "some packets were damaged");
    if settings.paths > 1 {
        assert!(!outcome.fallback);
        assert!(
            outcome.carried.iter().all(|&carried| carried > bytes / 20),
            "every path is used: {outcome:?}"
        );
    }
    assert_eq!(outcome.extra(0, "checksum_failures") + outcome.extra(1, "checksum_failures"), 0);
    outcome
}

macro_rules! transfers {
    ($($test:ident, $long:ident: $name:literal)*) => { $(
        #[test]
        fn $test() {
            transfer($name, DEFAULT_BYTES);
        }

        #[test]
        #[ignore = "long test: 100 MB each way"]
        fn $long() {
            transfer($name, LONG_RUN_BYTES);
        }
    )* };
}

transfers! {
    tcp, tcp_100_mb: "tcp"
    mptcp, mptcp_100_mb: "mptcp"
    mptcp_with_checksums, mptcp_with_checksums_100_mb: "mptcp with checksums"
    sctp_ordered, sctp_ordered_100_mb: "sctp ordered"
    sctp_unordered, sctp_unordered_100_mb: "sctp unordered"
    sctp_fragmented, sctp_fragmented_100_mb: "sctp fragmented"
    sctp_interleaved, sctp_interleaved_100_mb: "sctp interleaved"
    sctp_over_udp, sctp_over_udp_100_mb: "sctp over udp"
    sctp_authenticated, sctp_authenticated_100_mb: "sctp authenticated"
    cmt_sctp, cmt_sctp_100_mb: "cmt-sctp"
    cmt_sctp_interleaved, cmt_sctp_interleaved_100_mb: "cmt-sctp interleaved"
    cmt_sctp_together, cmt_sctp_together_100_mb: "cmt-sctp together"
}

#[test]
fn packets_handled_together_get_one_sack() {
    let (settings, load) = case("sctp ordered", 1_000_000);
    let none = Load::Messages {
        bytes: 1,
        lengths: (1, 1),
        streams: 1,
        unordered: 0.0,
        reliability: Reliability::Full,
    };
    let faults = Faults { loss: 0.0, duplication: 0.0, reordering: 0.0, damage: 0.0 };
    let [one_by_one, together] = [1, TOGETHER].map(|together| {
        let settings = Settings { together, ..settings };
        let outcome = transfer::run(&settings, [load, none], faults, 1, 100.0);
        outcome.check();
        outcome.packets[0]
    });
    // Messages of 700 bytes in the mean, two a packet: 800 packets with data or more, and half as many with SACKs.
    assert!(together * 5 < one_by_one * 4, "{together} packets together, {one_by_one} one by one");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random sizes, buffers, packets and faults.
    #[test]
    fn random_transfers_deliver_every_byte(program in prop::collection::vec(any::<u8>(), 25)) {
        transfer::program(&program);
    }
}
