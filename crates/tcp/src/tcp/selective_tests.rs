//! Selective acknowledgements that arrive late.

use super::adversarial_tests::forge;
use super::growth_tests::{BEFORE, MSS, acknowledge, config, path, sender, write};
use super::{Connection, LossState};
use anabranch_base::time::Duration;
use anabranch_testkit::harness::Pair;

/// The server acknowledges the first `count` segments and reports ranges of segments. Later segments do not fit into its
/// window of `window` bytes.
pub(super) fn report(pair: &mut Pair<Connection>, count: u64, ranges: &[(u64, u64)], window: u16) {
    let first = pair.ends[0].block().first;
    let position = |segments: u64| first.add((BEFORE + segments * MSS) as u32);
    forge(pair, 1, |segment| {
        (segment.ack, segment.window) = (position(count), window);
        for &(left, right) in ranges {
            segment.options.sack.push(position(left), position(right));
        }
    });
    pair.settle();
}

/// Selectively acknowledged segments of the client.
fn sacked(pair: &Pair<Connection>) -> u64 {
    pair.ends[0].block().sacked_bytes() / MSS
}

/// The reordering window of the client, in quarters of the minimum round-trip time.
fn quarters(pair: &Pair<Connection>) -> u64 {
    pair.ends[0].block().rack.quarters
}

#[test]
fn late_acknowledgement_reports_new_data() {
    let mut pair = sender(&config("reno"));
    write(&mut pair, 10);
    // Segments 0, 4 and 7 are lost. Those from 5 on are reported by an acknowledgement that arrives late.
    report(&mut pair, 0, &[(1, 2)], 1000);
    report(&mut pair, 0, &[(1, 3), (8, 9)], 1000);
    assert_eq!(pair.ends[0].block().loss_state(), LossState::Recovery);
    report(&mut pair, 4, &[(8, 9)], 1000);
    assert_eq!((sacked(&pair), pair.ends[0].block().acknowledged()), (1, BEFORE + 4 * MSS));
    let (window, sent) = (pair.ends[0].block().peer_window(), path(&pair).counters.fast_retransmissions);
    report(&mut pair, 3, &[(5, 7)], 0);
    assert_eq!((sacked(&pair), pair.ends[0].block().acknowledged()), (3, BEFORE + 4 * MSS));
    assert_eq!(pair.ends[0].block().peer_window(), window, "the window of a late segment is old");
    assert!(path(&pair).counters.fast_retransmissions > sent, "{:?}", path(&pair));
    let before = format!("{:?}", pair.ends[0].block());
    report(&mut pair, 3, &[(5, 7)], 0);
    assert_eq!(format!("{:?}", pair.ends[0].block()), before, "a repetition changes nothing");
}

#[test]
fn late_report_of_a_duplicate_counts() {
    for (acknowledged, range, expected) in [(3, (1, 2), 2), (1, (1, 2), 1), (3, (3, 5), 1)] {
        let mut pair = sender(&config("reno"));
        write(&mut pair, 10);
        acknowledge(&mut pair, 6);
        assert_eq!(quarters(&pair), 1);
        // The first block is a duplicate if it ends at or below the number of the same segment (RFC 2883 §4).
        report(&mut pair, acknowledged, &[range], 1000);
        assert_eq!((quarters(&pair), sacked(&pair)), (expected, 0), "{acknowledged} {range:?}");
    }
}

#[test]
fn last_segment_of_acknowledgement_gives_sample() {
    let mut pair = sender(&config("reno"));
    write(&mut pair, 10);
    report(&mut pair, 0, &[(1, 3), (8, 9)], 1000);
    assert_eq!(pair.ends[0].block().loss_state(), LossState::Recovery);
    // Segment 0 was retransmitted 20 ms after the others. After 25 ms its retransmission is acknowledged together with
    // segment 3, which was sent once, before segment 8: the path reorders (RFC 8985 §6.2 step 3).
    pair.run_until(pair.now.as_secs_f64() + 0.025);
    report(&mut pair, 4, &[(8, 9)], 1000);
    let rack = &pair.ends[0].block().rack;
    assert_eq!((rack.rtt, rack.reordering), (Duration::from_millis(45), true));
}

#[test]
fn blocks_of_one_report_are_not_reordered() {
    // Segments 0 and 3 are lost. The first report of the others has the newest block first (RFC 2018 §4).
    let mut pair = sender(&config("reno"));
    write(&mut pair, 10);
    report(&mut pair, 0, &[(4, 6), (1, 3)], 1000);
    assert_eq!((sacked(&pair), pair.ends[0].block().rack.reordering), (4, false));
    // A later report of data before them does show it.
    report(&mut pair, 0, &[(3, 6), (1, 3)], 1000);
    assert_eq!((sacked(&pair), pair.ends[0].block().rack.reordering), (5, true));
}
