//! Tests that this implementation does not have certain defects of other implementations.

use crate::rig::{MSS, Rig};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{ALGORITHMS, Signal};

/// Some other implementations compute the totals of a group only when a path changes its state, not with each
/// acknowledgement. LIA then grows by one byte per update, and CMT/RPv2 does not grow.
#[test]
fn totals_are_current_with_every_acknowledgement() {
    // Two windows of 20 packets: 20,000 · 1,000 · 20,000/40,000² = 250 B.
    let grown = |rig: &mut Rig| rig.ack(0, 20_000) - 20_000;
    assert_eq!(grown(&mut Rig::pair("lia", [20, 20], [100, 100])), 250);
    // The other path halves its window: 20,000/30,000² gives 444 B immediately.
    let mut rig = Rig::pair("lia", [20, 20], [100, 100]);
    rig.lose(1);
    assert_eq!(grown(&mut rig), 444);
    // The other path's round trip doubles: max c/R² = 2,000,000, Σ c/R = 300,000: 444 B.
    let mut rig = Rig::pair("lia", [20, 20], [100, 100]);
    rig.measure(1, 200);
    assert_eq!(grown(&mut rig), 444);
    // CMT/RPv2 grows by half a packet, and after the change of the round-trip times by two thirds of a packet.
    let mut rig = Rig::pair("cmt-rpv2", [20, 20], [100, 100]);
    assert_eq!(rig.ack(0, 20_000), 20_500);
    rig.measure(1, 200);
    rig.measure(0, 102); // rates of 20.5 packets in 102 ms and 20 in 200 ms: a share of 0.668
    assert_eq!(rig.ack(0, 20_500), 21_168);
}

/// The same defect limits the growth over many windows to one byte per update; a coupled pair must grow by more.
#[test]
fn every_coupled_control_grows_in_avoidance() {
    let coupled = ALGORITHMS.iter().filter(|entry| entry.coupled && entry.signal == Signal::Loss);
    for name in coupled.map(|entry| entry.name) {
        let mut rig = Rig::pair(name, [20, 20], [100, 100]);
        for _ in 0..100 {
            rig.ack(0, rig.window(0));
            rig.ack(1, rig.window(1));
        }
        let sum = rig.window(0) + rig.window(1);
        assert!(sum >= 40_000 + 20 * MSS, "{name}: {sum} B after 100 round trips");
    }
}

/// Some other implementations of OLIA never count acknowledged bytes, so that all paths are equally good, or divide 1 by
/// n as integers, so that α is always 0.
#[test]
fn olia_counts_bytes_and_divides_as_real_numbers() {
    let mut with_alpha = Rig::pair("olia", [20, 10], [100, 100]);
    let gain = with_alpha.ack(1, 10_000) - 10_000;
    // 10,000 · (10/30² + ½/10) = 611 B; without α 111 B.
    assert_eq!(gain, 611);
    // OLIA also counts data that is acknowledged during recovery.
    let mut rig = Rig::pair("olia", [20, 10], [100, 100]);
    rig.lose(1);
    rig.ack(1, 9_000);
    // Path 1 is best: path 0 decreases. 5,100 · (20/25² − ½/20) = 35.7 B; without counting 163 B.
    assert_eq!(rig.ack(0, 5_100) - 20_000, 35);
}

/// Some other implementations of BALIA truncate the ratio of rates to an integer before they scale it.
#[test]
fn balia_ratio_is_not_truncated() {
    // 20 against 16 packets: a = 1.25. 16,000 − 8,000 · 1.25; a truncated ratio leaves 8,000.
    assert_eq!(Rig::pair("balia", [20, 16], [100, 100]).lose(1), 6_000);
    // 16,000 · 16/36² · 2.25/2 · 5.25/5 = 233.3 B; truncated 197.5 B.
    assert_eq!(Rig::pair("balia", [20, 16], [100, 100]).ack(1, 16_000), 16_233);
}

/// Windows of 6 GB with round-trip times of 1 s and 100 µs lead to values beyond 2³², which must not wrap.
#[test]
fn large_windows_and_rates_do_not_wrap() {
    for name in ["cmt-rpv1", "cmt-rpv2", "lia", "olia", "balia"] {
        let big = 6_000_000_000;
        let mut rig = Rig::new(name).path(0, big, MSS).path(1, big, MSS);
        rig.measure(0, 1_000);
        rig.control.on_ack(&anabranch_multipath::congestion::Ack {
            srtt: Some(anabranch_base::time::Duration::from_micros(100)),
            ..anabranch_multipath::congestion::Ack::new(rig.now, PathId(1), 0)
        });
        let window = rig.ack(1, big);
        assert!((big + 200..=big + MSS).contains(&window), "{name}: {window}");
    }
}
