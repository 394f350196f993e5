//! Growth of the window by data that does not fill it.

use super::adversarial_tests::{established, forge};
use super::selective_tests::report;
use super::{Config, Connection, Recovery};
use anabranch_endpoint::endpoint::{Endpoint, PathReport, Write};
use anabranch_multipath::congestion::Choice;
use anabranch_testkit::harness::Pair;

/// Bytes of a segment: 1500 without the headers.
pub(super) const MSS: u64 = 1460;
/// Bytes that are acknowledged before a test begins.
pub(super) const BEFORE: u64 = 1000;

pub(super) fn config(congestion: &str) -> Config {
    let congestion = Choice::find(congestion).expect("the name is in the table");
    Config::default().congestion(congestion).timestamps(false)
}

/// A client with an initial window of ten segments, whose segments from now on do not arrive.
pub(super) fn sender(config: &Config) -> Pair<Connection> {
    let mut pair = established(config, BEFORE);
    pair.wires.values_mut().for_each(|wire| wire.up = false);
    assert_eq!(segments(&pair), (10, None));
    pair
}

pub(super) fn path(pair: &Pair<Connection>) -> PathReport {
    pair.ends[0].report().paths[0]
}

/// Window and threshold of the client in whole segments.
fn segments(pair: &Pair<Connection>) -> (u64, Option<u64>) {
    let path = path(pair);
    (path.cwnd / MSS, (path.ssthresh < u64::MAX).then_some(path.ssthresh / MSS))
}

/// Writes segments and waits for a round-trip time.
pub(super) fn write(pair: &mut Pair<Connection>, segments: u64) {
    assert_eq!(pair.ends[0].write(pair.now, Write::bytes(segments * MSS)), segments * MSS);
    pair.run_until(pair.now.as_secs_f64() + 0.02);
}

/// Acknowledges the first `count` segments.
pub(super) fn acknowledge(pair: &mut Pair<Connection>, count: u64) {
    let ack = pair.ends[0].block().first.add((BEFORE + count * MSS) as u32);
    forge(pair, 1, |segment| segment.ack = ack);
    pair.settle();
}

#[test]
fn slow_start_grows_while_half_is_outstanding() {
    for congestion in ["reno", "cubic", "lia", "olia", "balia"] {
        for (written, steps) in [
            (5, &[(2, 10), (5, 10)][..]), // half of the window
            (6, &[(2, 12), (4, 12), (6, 12)]),
            (6, &[(6, 16)]), // one acknowledgement: 10 + 6, because 10 < 2 · 6
            (9, &[(2, 12), (4, 14), (6, 16), (8, 18), (9, 18)]),
            (10, &[(2, 12), (4, 14), (6, 16), (8, 18), (10, 20)]),
        ] {
            let mut pair = sender(&config(congestion));
            write(&mut pair, written);
            for &(acknowledged, window) in steps {
                acknowledge(&mut pair, acknowledged);
                assert_eq!(segments(&pair), (window, None), "{congestion}: {acknowledged} of {written}");
            }
        }
    }
}

#[test]
fn earlier_outstanding_data_permits_no_growth() {
    let mut pair = sender(&config("reno"));
    write(&mut pair, 9);
    acknowledge(&mut pair, 9);
    assert_eq!(segments(&pair), (19, None));
    // Nine segments are half of the window at most. The earlier nine do not count any more.
    for (written, window) in [(9, 19), (2, 19), (10, 29)] {
        let count = (path(&pair).counters.bytes_acked - BEFORE) / MSS;
        write(&mut pair, written);
        acknowledge(&mut pair, count + written);
        assert_eq!(segments(&pair), (window, None), "{written}");
    }
}

#[test]
fn receive_window_permits_no_growth() {
    let mut pair = sender(&config("reno"));
    // The peer's window has six segments (137 units of 64 bytes), and four more wait.
    report(&mut pair, 0, &[], 137);
    write(&mut pair, 10);
    assert_eq!(path(&pair).outstanding / MSS, 6);
    for acknowledged in [2, 4] {
        report(&mut pair, acknowledged, &[], 137);
        assert_eq!(segments(&pair), (10, None), "{acknowledged}");
    }
    // Now the last six segments are in flight, and no more wait.
    report(&mut pair, 6, &[], 137);
    assert_eq!(segments(&pair), (12, None));
}

#[test]
fn congestion_avoidance_needs_a_full_window() {
    let mut pair = sender(&config("reno"));
    write(&mut pair, 10);
    assert!(pair.run_while(10.0, |pair| path(pair).counters.timeouts == 0));
    // The timeout halves the ten segments in flight. Slow start then opens the window from one segment to five.
    assert_eq!(segments(&pair), (1, Some(5)));
    acknowledge(&mut pair, 10);
    for (written, acknowledged, window) in [(2, 11, 3), (0, 12, 4), (4, 13, 5), (0, 16, 5)] {
        write(&mut pair, written);
        acknowledge(&mut pair, acknowledged);
        assert_eq!(segments(&pair), (window, Some(5)), "{acknowledged}");
    }
    // Three segments count towards the next one. Four more do not, because they leave a fifth of the window free.
    write(&mut pair, 4);
    acknowledge(&mut pair, 20);
    assert_eq!(segments(&pair), (5, Some(5)));
    write(&mut pair, 5);
    acknowledge(&mut pair, 25);
    assert_eq!(segments(&pair), (6, Some(5)));
}

#[test]
fn late_segment_opens_window_by_itself_only() {
    for sack in [true, false] {
        let mut pair = sender(&config("reno").sack(sack));
        report(&mut pair, 0, &[], 1000);
        write(&mut pair, 10);
        // Segment 0 is late: segments 1 and 2 cause duplicate acknowledgements.
        for arrived in [2, 3] {
            let range = sack.then_some((1, arrived));
            report(&mut pair, 0, range.as_slice(), 1000);
            assert_eq!(segments(&pair), (10, None), "{sack}");
        }
        for (acknowledged, window) in [(3, 11), (5, 13), (10, 18)] {
            acknowledge(&mut pair, acknowledged);
            assert_eq!(segments(&pair), (window, None), "SACK {sack}: {acknowledged}");
        }
    }
}

#[test]
fn path_that_reorders_opens_window_by_all_data() {
    for recovery in [Recovery::Sack, Recovery::Prr, Recovery::Rack] {
        let mut pair = sender(&config("reno").recovery(recovery));
        write(&mut pair, 10);
        report(&mut pair, 0, &[(1, 2)], 1000);
        acknowledge(&mut pair, 2);
        assert_eq!(segments(&pair), (11, None), "{recovery:?}");
        // The sender knows now that the path reorders (RFC 8985 §6.2 step 3).
        report(&mut pair, 2, &[(3, 5)], 1000);
        acknowledge(&mut pair, 5);
        assert_eq!(segments(&pair), (14, None), "{recovery:?}");
    }
}
