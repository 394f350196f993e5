//! Compares every algorithm with numbers computed by hand. MSS is 1,000 B; the calculations are in the comments.

use crate::rig::{MSS, NONE, Rig, setup};
use anabranch_base::time::Duration;
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{Ack, Options, PathSetup, PenaltyInSlowStart, Rules, SlowStart};

#[test]
fn reno_slow_start_counts_one_packet_per_ack() {
    let mut rig = Rig::new("reno").path(0, 10_000, NONE);
    assert_eq!(rig.ack(0, 500), 10_500);
    assert_eq!(rig.ack(0, 3_000), 11_500);
}

#[test]
fn reno_avoidance_adds_a_packet_per_full_window() {
    let mut rig = Rig::new("reno").path(0, 10_000, 10_000);
    assert!((0..9).all(|_| rig.ack(0, 1_000) == 10_000));
    assert_eq!(rig.ack(0, 1_500), 11_000); // 10,500 bytes are counted: the window grows by one packet, and 500 bytes are left
    assert!((0..10).all(|_| rig.ack(0, 1_000) == 11_000)); // 10,500 bytes are counted, not yet a full window
    assert_eq!(rig.ack(0, 500), 12_000);
}

#[test]
fn reno_halves_rounding_up_and_freezes_in_recovery() {
    let mut rig = Rig::new("reno").path(0, 12_001, NONE);
    assert_eq!(rig.lose(0), 6_001);
    assert_eq!(rig.ssthresh(0), 6_001);
    assert_eq!(rig.lose(0), 6_001, "one reaction per window of data");
    assert_eq!(rig.mark(0), 6_001, "an echo within recovery is the same congestion");
    assert_eq!(rig.ack(0, 50_000), 6_001);
    rig.recover(0);
    assert_eq!(rig.ack(0, 6_001), 7_001);
}

#[test]
fn whole_packet_windows_accumulate_to_a_packet() {
    let mut rig = Rig::new("reno").path_in_packets(0, 10_000, 12_000);
    assert_eq!(
        rig.ack(0, 500),
        10_000,
        "in slow start, the window does not grow until a whole packet is acknowledged"
    );
    assert_eq!(rig.ack(0, 500), 11_000);
    assert_eq!(rig.ack(0, 1_000), 12_000);
    assert!((0..11).all(|_| rig.ack(0, 1_000) == 12_000));
    assert_eq!(rig.ack(0, 1_000), 13_000);
    assert_eq!(rig.lose(0), 6_000, "13 >> 1, as in Linux");
    // Coupled congestion control on two paths with equal windows and round-trip times: each acknowledged packet adds
    // 1,000 / 20,000 of a packet (RFC 6356).
    let mut rig = Rig::new("lia").path_in_packets(0, 10_000, MSS).path_in_packets(1, 10_000, MSS);
    rig.measure(0, 100);
    rig.measure(1, 100);
    let windows: Vec<u64> = (0..41).map(|_| rig.ack(0, 1_000)).collect();
    assert!(windows.iter().all(|window| window % 1_000 == 0), "{windows:?}");
    let first = windows.iter().position(|&window| window == 11_000);
    assert_eq!(first, Some(39), "alpha is 1/2: 40 packets of 25 bytes each");
}

/// With windows in whole packets, a loss sets the threshold as `tcp_reno_ssthresh` does, and CMT/RPv2 keeps the bytes that
/// it has counted towards the next packet.
#[test]
fn whole_packet_windows_follow_linux() {
    for name in ["reno", "lia", "olia", "cmt-rpv2"] {
        let mut rig = Rig::new(name).path_in_packets(0, 3_000, MSS).path_in_packets(1, 12_000, MSS);
        rig.measure(0, 100);
        rig.measure(1, 100);
        assert_eq!((rig.lose(0), rig.ssthresh(0)), (2_000, 2_000), "{name}");
    }
    let mut rig = Rig::new("cmt-rpv2").path_in_packets(0, 4_000, MSS).path_in_packets(1, 12_000, MSS);
    rig.measure(0, 100);
    rig.measure(1, 100);
    // The share of the path is a quarter: three acknowledged windows add 750 bytes.
    assert!((0..12).all(|_| rig.ack(0, 1_000) == 4_000));
    assert_eq!(rig.lose(0), 2_000);
    rig.recover(0);
    // The share of the path is a seventh: two acknowledged windows add 143 bytes each.
    let windows = [(); 4].map(|()| rig.ack(0, 1_000));
    assert_eq!(windows, [2_000, 2_000, 2_000, 3_000]);
}

#[test]
fn reno_minimum_threshold_depends_on_protocol() {
    assert_eq!(Rig::new("reno").path_by(Rules::Sctp, 0, 5_000, NONE).lose(0), 4_000);
    assert_eq!(Rig::new("reno").path_by(Rules::Tcp, 0, 3_000, NONE).lose(0), 2_000);
}

/// A minimum threshold of 4 packets may be set for TCP too, as in Becke2014 §2.2.4.1. Coupled congestion controls ignore
/// the setting, because they define a minimum themselves.
#[test]
fn minimum_threshold_is_configurable() {
    let left = |name, window| {
        let setup = PathSetup { floor: 4, ..setup(Rules::Tcp, window, NONE) };
        Rig::new(name).path_of(0, setup).lose(0)
    };
    assert_eq!([left("reno", 10_000), left("reno", 6_000), left("cubic", 5_000)], [5_000, 4_000, 4_000]);
    assert_eq!([left("lia", 6_000), left("olia", 3_000)], [3_000, 1_500]);
}

#[test]
fn tcp_threshold_uses_flight_sctp_uses_window() {
    // If the application has filled only 6 of 20 packets, the threshold is computed from the packets in flight (RFC 5681
    // eq. 4).
    for (name, left) in [("reno", 3_000), ("cubic", 4_200), ("lia", 3_000), ("olia", 3_000), ("balia", 3_000)]
    {
        let mut rig = Rig::new(name).path(0, 20_000, MSS);
        rig.measure(0, 50);
        assert_eq!(rig.lose_of(0, 6_000), left, "{name}");
        assert_eq!(rig.ssthresh(0), left, "{name}");
        rig.control.on_spurious(rig.now, PathId(0));
        assert_eq!(rig.window(0), 20_000, "{name}: a spurious loss changes nothing");
    }
    assert_eq!(
        Rig::new("reno").path(0, 20_000, MSS).lose_of(0, 23_000),
        10_000,
        "the bytes in flight count up to the window"
    );
    assert_eq!(
        Rig::new("reno").path(0, 20_000, MSS).lose_of(0, 500),
        2_000,
        "at least the minimum threshold"
    );
    let mut rig = Rig::new("reno").path_by(Rules::Sctp, 0, 20_000, MSS);
    assert_eq!(rig.lose_of(0, 6_000), 10_000, "RFC 9260 §7.2.3 uses the window");
}

#[test]
fn repeated_timeout_keeps_the_threshold() {
    let mut rig = Rig::new("reno").path(0, 20_000, NONE);
    assert_eq!(rig.time_out(0, false), 10_000);
    assert_eq!(rig.window(0), MSS);
    assert_eq!(rig.time_out(0, true), 10_000);
    assert_eq!(rig.ack(0, 1_000), 2_000, "the window grows by slow start after a timeout");
    assert_eq!(rig.time_out(0, false), 2_000, "a timeout of new data sets a new threshold");
}

#[test]
fn timeout_ends_recovery_and_echo_starts_none() {
    let mut rig = Rig::new("reno").path(0, 20_000, NONE);
    assert_eq!(rig.mark(0), 10_000);
    assert_eq!(rig.ack(0, 10_000), 11_000);
    assert_eq!(rig.lose(0), 5_500);
    rig.time_out(0, false);
    assert_eq!(rig.ack(0, 1_000), 2_000);
}

#[test]
fn idle_restart_uses_initial_window() {
    let mut rig = Rig::new("reno").path(0, 10_000, NONE);
    rig.ack(0, 1_000);
    assert_eq!(rig.idle(0, 1), 10_000);
    rig.lose(0);
    rig.recover(0);
    rig.idle(0, 1);
    assert_eq!((rig.window(0), rig.ssthresh(0)), (5_000, 5_000));
}

#[test]
fn sctp_halves_idle_window_once_per_timeout() {
    let mut rig = Rig::new("reno").path_by(Rules::Sctp, 0, 40_000, NONE);
    assert_eq!(rig.idle(0, 1), 20_000);
    assert_eq!(rig.ssthresh(0), 40_000, "the threshold is the window before the idle time");
    assert_eq!(rig.idle(0, 2), 5_000);
    assert_eq!(rig.ssthresh(0), 20_000);
    assert_eq!(rig.idle(0, 100), 4_000, "at least the minimum threshold");
    rig.time_out(0, false);
    assert_eq!(rig.idle(0, 1), 1_000, "an idle time never increases the window");
}

#[test]
fn sctp_sets_the_threshold_at_every_timeout() {
    let mut rig = Rig::new("reno").path_by(Rules::Sctp, 0, 20_000, NONE);
    assert_eq!(rig.time_out(0, false), 10_000);
    assert_eq!(rig.time_out(0, true), 4_000, "the minimum threshold applies: half a packet is less");
}

#[test]
fn penalty_halves_window_and_threshold() {
    let mut rig = Rig::new("reno").path(0, 12_000, 8_000).path(1, 12_000, NONE);
    rig.control.penalise(rig.now, PathId(0), PenaltyInSlowStart::Unbounded);
    assert_eq!((rig.window(0), rig.ssthresh(0)), (6_000, 4_000));
    rig.control.penalise(rig.now, PathId(1), PenaltyInSlowStart::Unbounded);
    assert_eq!((rig.window(1), rig.ssthresh(1)), (6_000, NONE));
    (0..9).for_each(|_| rig.control.penalise(rig.now, PathId(0), PenaltyInSlowStart::Unbounded));
    assert_eq!((rig.window(0), rig.ssthresh(0)), (MSS, MSS));
}

#[test]
fn penalty_bounds_slow_start() {
    let mut rig = Rig::new("reno").path(0, 12_000, 8_000).path(1, 12_000, NONE);
    for (path, left) in [(0, (6_000, 4_000)), (1, (6_000, 12_000)), (1, (3_000, 6_000))] {
        rig.control.penalise(rig.now, PathId(path), PenaltyInSlowStart::Bounded);
        assert_eq!((rig.window(path), rig.ssthresh(path)), left);
    }
}

#[test]
fn larger_packet_raises_window_and_thresholds() {
    let mut rig = Rig::new("reno").path_by(Rules::Sctp, 0, 3_000, 3_000);
    rig.control.set_mss(PathId(0), 8_000);
    assert_eq!((rig.window(0), rig.ssthresh(0)), (8_000, 8_000));
    assert_eq!(rig.lose(0), 32_000, "the minimum threshold is four packets of the new size");
}

#[test]
fn unusable_path_keeps_window_and_leaves_sums() {
    // The thresholds are 2:1, so the shares are 2:1 too. A single path has a share of 1.
    let mut rig = Rig::new("cmt-rpv1").path(0, 10_000, 8_000).path(1, 10_000, 4_000);
    rig.control.set_usable(PathId(0), false);
    assert_eq!(rig.ack(0, 10_000), 10_000);
    assert_eq!(rig.ack(1, 10_000), 11_000);
    rig.control.set_usable(PathId(0), true);
    assert_eq!(rig.ack(1, 11_000), 11_334);
    rig.control.remove_path(PathId(0));
    assert_eq!(rig.ack(1, 11_334), 12_334);
    assert_eq!((rig.window(0), rig.ssthresh(0)), (0, NONE));
}

#[test]
fn rpv1_shares_by_threshold() {
    // Thresholds 10,000 and 5,000: shares 2/3 and 1/3.
    let rig = || Rig::new("cmt-rpv1").path(0, 20_000, 10_000).path(1, 5_000, 5_000);
    assert_eq!(rig().ack(0, 20_000), 20_667);
    assert_eq!(rig().ack(1, 5_000), 5_334);
    // In slow start, the window grows by a third of the acknowledged bytes, of which at most 1,000 B count.
    let slow = || Rig::new("cmt-rpv1").path(0, 20_000, 10_000).path(1, 4_000, 5_000);
    assert_eq!(slow().ack(1, 900), 4_300);
    assert_eq!(slow().ack(1, 9_000), 4_334);
    // A loss leaves the larger of 20,000 − 12,500 and ⌈2,666.7⌉ on path 0, and the larger of 5,000 − 12,500 and
    // ⌈1,333.3⌉ on path 1.
    assert_eq!(rig().lose(0), 7_500);
    assert_eq!(rig().lose(1), 1_334);
    let mut timed_out = rig();
    assert_eq!(timed_out.time_out(0, false), 7_500);
    assert_eq!(timed_out.window(0), MSS);
}

#[test]
fn rpv1_counts_path_without_threshold_as_average() {
    // No threshold is known: each path has half of the total.
    let mut rig = Rig::new("cmt-rpv1").path(0, 4_000, NONE).path(1, 4_000, NONE);
    assert_eq!(rig.ack(0, 1_000), 4_500);
    // The thresholds are 9,000, 3,000 and unknown; an unknown threshold counts as the mean of the known ones, 6,000.
    // The shares of the sum 18,000 are one half, one sixth and one third.
    let rig = || Rig::new("cmt-rpv1").path(0, 9_000, 9_000).path(1, 3_000, 3_000).path(2, 3_000, NONE);
    assert_eq!(rig().ack(0, 9_000), 9_500);
    assert_eq!(rig().ack(1, 3_000), 3_167);
    assert_eq!(rig().ack(2, 1_000), 3_334);
}

/// Creates a rig with two paths of 10 and 2 Mbit/s: 125,000 B in 100 ms, and 12,500 B in 50 ms.
fn ten_and_two() -> Rig {
    let mut rig = Rig::new("cmt-rpv2").path(0, 125_000, MSS).path(1, 12_500, MSS);
    rig.measure(0, 100);
    rig.measure(1, 50);
    rig
}

#[test]
fn rpv2_shares_by_rate() {
    // The windows grow by 10/12 and 2/12 of a packet.
    assert_eq!(ten_and_two().ack(0, 125_000), 125_834);
    assert_eq!(ten_and_two().ack(1, 12_500), 12_667);
    // A loss takes d̂ times the window: with d̂ = 0.6, 125,000 − 75,000 B are left; with d̂ = 3.0, only one packet.
    assert_eq!(ten_and_two().lose(0), 50_000);
    assert_eq!(ten_and_two().lose(1), MSS);
    let mut slow = Rig::new("cmt-rpv2").path(0, 125_000, NONE).path(1, 12_500, NONE);
    slow.measure(0, 100);
    slow.measure(1, 50);
    assert_eq!(slow.ack(0, 600), 125_500);
    assert_eq!(slow.ack(1, 600), 12_600);
}

#[test]
fn rpv2_counts_unmeasured_paths_as_average() {
    // Two paths without a round-trip time: each has half of the total.
    let mut rig = Rig::new("cmt-rpv2").path(0, 10_000, NONE).path(1, 20_000, NONE);
    assert_eq!(rig.ack(0, 1_000), 10_500);
    // Now path 1 has a round-trip time but path 0 has none, so the sum of the rates contains only path 1.
    rig.measure(1, 100);
    assert_eq!(rig.ack(1, 1_000), 21_000);
    assert_eq!(rig.ack(0, 1_000), 11_000);
    // The paths count as equal, so d̂ = 1: 11,000 − 11,000 would be 0, but one packet is left.
    assert_eq!(rig.lose(0), MSS);
}

#[test]
fn lia_increases_match_numbers_by_hand() {
    // 20 and 10 packets at one RTT: a/Σc = 20,000/30,000². A window of 20,000 B adds 444.4 B, a window of 10,000 B adds
    // half as much.
    assert_eq!(Rig::pair("lia", [20, 10], [100, 100]).ack(0, 20_000), 20_444);
    assert_eq!(Rig::pair("lia", [20, 10], [100, 100]).ack(1, 10_000), 10_222);
    // 2 packets at 100 ms, 10 at 1 s: max c/R² = 200,000, Σ c/R = 30,000; 2.2e-4 exceeds only 1/c of the
    // second path, which grows as TCP; the first path grows by 2,000 · 1,000 · 2.2e-4.
    assert_eq!(Rig::pair("lia", [2, 10], [100, 1_000]).ack(1, 10_000), 11_000);
    assert_eq!(Rig::pair("lia", [2, 10], [100, 1_000]).ack(0, 2_000), 2_444);
    assert_eq!(Rig::pair("lia", [20, 10], [100, 100]).lose(0), 10_000);
    assert_eq!(
        Rig::new("lia").path_by(Rules::Sctp, 0, 1_500, NONE).lose(0),
        MSS,
        "the minimum threshold is one packet"
    );
}

#[test]
fn lia_of_2011_grows_every_path_by_the_same_factor() {
    // 20 and 10 packets at one RTT: â = 30,000 · 20,000/30,000² = 2/3 on either path.
    assert_eq!(Rig::pair("lia-2011", [20, 10], [100, 100]).ack(0, 20_000), 20_667);
    assert_eq!(Rig::pair("lia-2011", [20, 10], [100, 100]).ack(1, 10_000), 10_667);
    // 2 packets at 100 ms, 10 at 1 s: â = 12,000 · 200,000/30,000² = 2.67, but no path grows faster than TCP.
    assert_eq!(Rig::pair("lia-2011", [2, 10], [100, 1_000]).ack(0, 2_000), 3_000);
    assert_eq!(Rig::pair("lia-2011", [2, 10], [100, 1_000]).ack(1, 10_000), 11_000);
    assert_eq!(Rig::pair("lia-2011", [20, 10], [100, 100]).lose(0), 10_000);
    // Slow start uses the same factor; it is one half before a round-trip time is known.
    let mut rig = Rig::new("lia-2011").path(0, 20_000, NONE).path(1, 20_000, NONE);
    assert_eq!(rig.ack(0, 600), 20_300);
    rig.measure(0, 100);
    rig.measure(1, 50);
    // 20,300 B at 100 ms and 20,000 B at 50 ms: 40,300 · 8·10⁶/603,000² = 0.8867. For 600 B the growth is 532.01.
    assert_eq!(rig.ack(1, 600), 20_533);
}

#[test]
fn lia_carries_fractions_of_a_byte() {
    // An acknowledgement of 1,000 B adds 5 B to 200 packets. With two equal paths of 200 it adds 1.25 B, so 5 B after four.
    let mut rig = Rig::pair("lia", [200, 200], [100, 100]);
    let windows: Vec<u64> = (0..4).map(|_| rig.ack(0, 1_000)).collect();
    assert_eq!(windows, [200_001, 200_002, 200_003, 200_004], "rounding up would give 200,008");
}

#[test]
fn lia_slow_start_is_uncoupled_or_coupled() {
    let start = |slow_start| {
        let mut rig = Rig::with("lia", Options { slow_start, ..Options::default() })
            .path(0, 20_000, NONE)
            .path(1, 10_000, NONE);
        rig.measure(0, 100);
        rig.measure(1, 100);
        rig
    };
    assert_eq!(start(SlowStart::Rfc).ack(1, 1_000), 11_000);
    // â = 20/30² per packet of window: 20·â = 0.444, 10·â = 0.222.
    assert_eq!(start(SlowStart::Coupled).ack(0, 1_000), 20_445);
    assert_eq!(start(SlowStart::Coupled).ack(1, 1_000), 10_223);
    // With a single path the factor is 1.
    let mut alone = Rig::with("lia", Options { slow_start: SlowStart::Coupled, ..Options::default() })
        .path(0, 20_000, NONE);
    alone.measure(0, 70);
    assert_eq!(alone.ack(0, 1_000), 21_000);
}

#[test]
fn olia_moves_window_to_the_best_path() {
    // The largest path is the best one: α = 0, 1,000 · 20/30² = 22.2 B.
    assert_eq!(Rig::pair("olia", [20, 10], [100, 100]).ack(0, 1_000), 20_022);
    // The small path has carried more data: it is a collected path with α = ½: 1,000 · (10/30² + ½/10) = 61.1 B.
    let mut rig = Rig::pair("olia", [20, 10], [100, 100]);
    assert_eq!(rig.ack(1, 1_000), 10_061);
    // The window of the largest path decreases: 500 · (20/30.061² − ½/20) = −1.43 B. The threshold decreases with the
    // window, so that the path does not enter slow start.
    assert_eq!(rig.ack(0, 500), 19_999);
    assert!(rig.ssthresh(0) <= rig.window(0));
}

#[test]
fn olia_shares_alpha_among_collected_and_largest() {
    // Four paths of 20, 20, 10, 10 packets; both small paths have carried the same amount: |collected| =
    // |largest| = 2, n = 4.
    let mut rig = Rig::pair("olia", [20, 20], [100, 100]).path(2, 10_000, MSS).path(3, 10_000, MSS);
    rig.measure(2, 100);
    rig.measure(3, 100);
    rig.lose(2); // to 5,000 B; OLIA also counts data acknowledged during recovery
    rig.lose(3);
    rig.ack(2, 5_000);
    rig.ack(3, 5_000);
    rig.recover(2);
    rig.recover(3);
    // Σw = 50 packets. Each of the largest paths grows by 1,000 · (20/50² − ⅛/20) = 1.75 B, of which `ack` returns the
    // whole bytes.
    assert_eq!(rig.ack(0, 1_000), 20_001);
    assert_eq!(rig.ack(1, 1_000), 20_001);
    // A collected path grows by 1,000 · (5/50² + ⅛/5) = 27 B, and slightly less because the total has grown.
    rig.control.set_usable(PathId(3), false); // acknowledged data is counted, but the window does not grow
    rig.ack(3, 1_000);
    rig.control.set_usable(PathId(3), true);
    assert_eq!(rig.ack(2, 1_000), 5_026);
}

#[test]
fn olia_remembers_the_interval_before_the_last_loss() {
    // Path 1 has carried 9,000 B before its loss, and path 0 has carried less since: path 1 is still the best.
    let mut rig = Rig::pair("olia", [20, 10], [100, 100]);
    rig.control.set_usable(PathId(1), false); // acknowledged data is counted, but the window does not grow
    rig.ack(1, 9_000);
    rig.control.set_usable(PathId(1), true);
    assert_eq!(rig.lose(1), 5_000);
    rig.recover(1);
    // α = −½: 4,100 · (20/25² − ½/20) = +28.7; without the bytes before the loss it would be +131.
    assert_eq!(rig.ack(0, 4_100), 20_028);
    // An immediate second loss makes both intervals between losses short.
    rig.lose(1);
    assert_eq!(rig.window(1), 2_500);
    rig.time_out(1, true); // a repeated timeout starts no new interval between losses
    assert_eq!(rig.window(1), MSS);
}

#[test]
fn balia_matches_numbers_by_hand() {
    // x = 200 and 100 packets/s, a = 1 and 2: 1,000 · 20/30² · 1 = 22.2 B; 1,025 · 10/30² · 3/2 · 6/5 = 20.5
    // B.
    assert_eq!(Rig::pair("balia", [20, 10], [100, 100]).ack(0, 1_000), 20_022);
    assert_eq!(Rig::pair("balia", [20, 10], [100, 100]).ack(1, 1_025), 10_020);
    // Loss: with a = 1 the window decreases by half. a = 2 is limited to 1.5, and the window decreases by three quarters.
    assert_eq!(Rig::pair("balia", [20, 10], [100, 100]).lose(0), 10_000);
    assert_eq!(Rig::pair("balia", [20, 10], [100, 100]).lose(1), 2_500);
}

/// Acknowledges whole windows, one per 100 ms, for `rounds` round trips; returns the window in packets.
fn run(rig: &mut Rig, rounds: u32) -> f64 {
    for _ in 0..rounds {
        let packets = rig.window(0) / MSS;
        for _ in 0..packets {
            rig.ack_with(0, MSS, Some(100));
        }
        rig.wait(100);
    }
    rig.window(0) as f64 / MSS as f64
}

#[test]
fn cubic_returns_to_the_plateau_in_k_seconds() {
    let mut rig = Rig::new("cubic").path(0, 100_000, NONE);
    rig.measure(0, 100);
    assert_eq!(rig.lose(0), 70_000);
    rig.recover(0);
    // K = ∛(30/0.4) = 4.217 s. The window differs from W(t) by at most one RTT, because the target is W(t + RTT).
    let quarter = run(&mut rig, 21); // W(2.1) = 100 − 0.4 · 2.117³ = 96.2
    assert!((quarter - 96.2).abs() < 1.0, "{quarter}");
    let plateau = run(&mut rig, 21); // W(4.2) = 100
    assert!((plateau - 100.0).abs() < 0.3, "{plateau}");
    let beyond = run(&mut rig, 42); // W(8.4) = 100 + 0.4 · 4.183³ = 129.3; the window is one step behind the steep curve
    assert!((beyond - 129.3).abs() < 3.0, "{beyond}");
}

#[test]
fn cubic_is_at_least_as_fast_as_reno() {
    // RTT 1 ms: W(t) hardly changes in 100 round trips; W_est grows by 3·0.3/1.7 = 0.529 packets in each,
    // until the window before the loss is reached, and then by one packet.
    let mut rig = Rig::new("cubic").path(0, 100_000, NONE);
    rig.measure(0, 1);
    rig.lose(0);
    rig.recover(0);
    for _ in 0..20 {
        for _ in 0..rig.window(0) / MSS {
            rig.ack_with(0, MSS, Some(1));
        }
        rig.wait(1);
    }
    let expected = 70_000 + 20 * 529;
    assert!(rig.window(0).abs_diff(expected) < 200, "{}", rig.window(0));
}

#[test]
fn cubic_converges_fast_and_restarts_after_timeout() {
    let mut rig = Rig::new("cubic").path(0, 100_000, NONE);
    rig.measure(0, 100);
    rig.lose(0);
    rig.recover(0);
    // A loss at a window of 70 < 100: W_max = 70 · 0.85 = 59.5, w = 49; K = ∛(10.5/0.4) = 2.97 s.
    assert_eq!(rig.lose(0), 49_000);
    rig.recover(0);
    let plateau = run(&mut rig, 30);
    // Reno would have 49 + 30 · 0.529 = 64.9 by then: the friendly region is above the plateau.
    assert!((plateau - 64.9).abs() < 0.7, "{plateau}");
    assert_eq!(rig.time_out(0, false), rig.ssthresh(0));
    assert_eq!(rig.window(0), MSS);
    let threshold = rig.ssthresh(0);
    while rig.window(0) < threshold {
        rig.ack_with(0, MSS, Some(100));
    }
    // The new stage starts at the current window w: after 1 s W(t) = w + 0.4, and Reno's window is w + 5.3. With K computed
    // for the old plateau, the window would be far larger.
    let before = rig.window(0) as f64 / MSS as f64;
    let after = run(&mut rig, 10);
    assert!((after - before - 5.3).abs() < 0.7, "{before} {after}");
}

#[test]
fn cubic_does_not_count_unused_time() {
    let used = |idle_first: bool| {
        let mut rig = Rig::new("cubic").path(0, 100_000, NONE);
        rig.measure(0, 100);
        rig.lose(0);
        rig.recover(0);
        run(&mut rig, 5);
        if idle_first {
            for _ in 0..100 {
                rig.wait(100);
                let srtt = Some(Duration::from_millis(100));
                let ack = Ack { srtt, cwnd_limited: false, ..Ack::new(rig.now, PathId(0), 1) };
                rig.control.on_ack(&ack);
            }
        }
        run(&mut rig, 10)
    };
    assert!((used(true) - used(false)).abs() < 1.0, "{} {}", used(true), used(false));
}

/// Runs one round of wVegas: three samples that do not change the window, then the acknowledgement after which wVegas
/// decides. Returns the new window.
fn vegas_round(rig: &mut Rig, id: u8, rtt_ms: u64) -> u64 {
    for _ in 0..3 {
        rig.wait(1);
        rig.ack_with(id, 0, Some(rtt_ms));
    }
    rig.wait(1_000);
    rig.ack_with(id, 1, Some(rtt_ms))
}

#[test]
fn wvegas_ends_slow_start_at_a_backlog_of_one() {
    // base = 100 ms. The first acknowledgement opens a round; it has too few samples, so the window grows as in Reno.
    let mut rig = Rig::new("wvegas").path(0, 20_000, NONE);
    assert_eq!(rig.ack_with(0, 1_000, Some(100)), 21_000);
    // 104 ms in the mean: diff = 21 · (1 − 100/104) = 0.81: slow start continues.
    assert_eq!(vegas_round(&mut rig, 0, 104), 21_001);
    // An RTT of 125 ms: diff = 4.2. Slow start ends with w = 21.001 · 0.8 + 1 packets and s = w − 1.
    assert_eq!(vegas_round(&mut rig, 0, 125), 17_800);
    assert_eq!(rig.ssthresh(0), 16_800);
    // Avoidance with α = 2. An RTT of 100 ms: diff = 0, so the window grows by one packet.
    assert_eq!(vegas_round(&mut rig, 0, 100), 18_800);
}

#[test]
fn wvegas_holds_its_share_of_ten_packets() {
    // One path, so α = 10 once diff ≥ 2.
    let mut rig = Rig::new("wvegas").path(0, 40_000, MSS);
    rig.ack_with(0, 1, Some(100));
    // An RTT of 120 ms: diff = 40/6 = 6.7 < 10, so the window grows. Queues are ignored until the backlog is reached.
    assert_eq!(vegas_round(&mut rig, 0, 120), 41_000);
    // An RTT of 139 ms: diff = 11.5, so the window shrinks; the queue of 39 ms is the smallest one.
    assert_eq!(vegas_round(&mut rig, 0, 139), 40_000);
    assert_eq!(vegas_round(&mut rig, 0, 140), 39_000);
    // An RTT of 180 ms: diff = 17.3, so the window shrinks to 38. 80 ms are twice 39 ms, so a drain by 100/360 follows.
    assert_eq!(vegas_round(&mut rig, 0, 180), 10_555);
}

#[test]
fn wvegas_shares_the_backlog_by_rate() {
    let mut rig = Rig::new("wvegas").path(0, 40_000, MSS).path(1, 40_000, MSS);
    rig.ack_with(0, 1, Some(100));
    rig.ack_with(1, 1, Some(100));
    // At first only the rate of the first path is known: α = 10 and diff = 6.7, so the window of the first path grows. Then
    // each path has α = 5, and the window of the second path shrinks.
    assert_eq!(vegas_round(&mut rig, 0, 120), 41_000);
    assert_eq!(vegas_round(&mut rig, 1, 120), 39_000);
    // The first path takes the second into account when it reaches its α of 10: 41 · (1 − 100/138) = 11.3;
    // rates 297 and 333 packets a second: α = 4.7.
    assert_eq!(vegas_round(&mut rig, 0, 138), 40_000);
    assert_eq!(vegas_round(&mut rig, 0, 120), 39_000);
}

#[test]
fn wvegas_needs_three_samples_and_keeps_two_packets() {
    let mut rig = Rig::new("wvegas").path(0, 2_000, MSS);
    rig.ack_with(0, 2_000, Some(100)); // with one sample, wVegas grows by one packet per acknowledged window
    assert_eq!(rig.window(0), 3_000);
    rig.wait(100);
    assert_eq!(rig.ack_with(0, 1_500, Some(900)), 3_000); // half a window is acknowledged: counted, without growth
    rig.wait(900);
    assert_eq!(rig.ack_with(0, 1_500, Some(900)), 4_000);
    // A queueing delay of 1.9 s, with a backlog of ten packets, is followed by one of 3.9 s: wVegas would reduce the window
    // to 100/8000, but keeps two packets.
    let mut rig = Rig::new("wvegas").path(0, 12_000, MSS);
    rig.ack_with(0, 1, Some(100));
    assert_eq!(vegas_round(&mut rig, 0, 2_000), 11_000);
    rig.wait(1_000);
    assert_eq!(vegas_round(&mut rig, 0, 4_000), 2_000);
    assert_eq!(rig.lose(0), 2_000);
}

#[test]
fn wvegas_forgets_the_rate_of_a_path_that_timed_out() {
    let mut rig = Rig::new("wvegas").path(0, 40_000, MSS).path(1, 40_000, MSS);
    for id in [0, 1] {
        rig.ack_with(id, 1, Some(100));
        vegas_round(&mut rig, id, 120);
    }
    rig.time_out(1, false);
    // With a single path again, α = 10 exceeds diff = 6.8.
    let before = rig.window(0);
    assert_eq!(vegas_round(&mut rig, 0, 120), before + 1_000);
}

#[test]
fn unused_window_does_not_grow() {
    for entry in anabranch_multipath::congestion::ALGORITHMS {
        let mut rig = Rig::new(entry.name).path(0, 10_000, NONE);
        let srtt = Some(Duration::from_millis(100));
        let ack = Ack { rtt: srtt, srtt, cwnd_limited: false, ..Ack::new(rig.now, PathId(0), 5_000) };
        rig.control.on_ack(&ack);
        assert_eq!(rig.window(0), 10_000, "{}", entry.name);
    }
}

#[test]
fn vegas_keeps_two_to_four_packets_in_queues() {
    // base = 100 ms. The first round has too few samples.
    let mut rig = Rig::new("vegas").path(0, 20_000, NONE);
    assert_eq!(rig.ack_with(0, 1_000, Some(100)), 21_000);
    // 104 ms: diff = 21 · (1 − 100/104) = 0.81. Slow start continues, and the next round only measures.
    assert_eq!(vegas_round(&mut rig, 0, 104), 21_000);
    // 125 ms: diff = 4.2. Slow start ends with w = 21 · 0.8 + 1 packets and s = w − 1.
    assert_eq!(vegas_round(&mut rig, 0, 125), 17_800);
    assert_eq!(rig.ssthresh(0), 16_800);
    // Without a queue the window grows by a packet; 118 ms: diff = 2.87; 130 ms: diff = 4.34.
    assert_eq!(vegas_round(&mut rig, 0, 100), 18_800);
    assert_eq!(vegas_round(&mut rig, 0, 118), 18_800);
    assert_eq!(vegas_round(&mut rig, 0, 130), 17_800);
    assert_eq!(rig.lose(0), 8_900);
}

#[test]
fn vegas_doubles_every_other_round() {
    let mut rig = Rig::new("vegas").path(0, 10_000, NONE);
    rig.ack_with(0, 1, Some(100));
    let grown = |rig: &mut Rig| {
        vegas_round(rig, 0, 100);
        let before = rig.window(0);
        rig.wait(1);
        rig.ack_with(0, MSS, Some(100)) - before
    };
    assert_eq!([(); 4].map(|()| grown(&mut rig)), [0, MSS, 0, MSS]);
}

#[test]
fn westwood_reduces_to_the_estimated_bandwidth() {
    let mut rig = Rig::new("westwood").path(0, 20_000, MSS);
    rig.ack_with(0, 1_000, Some(100));
    for bytes in [1_000, 2_000] {
        for _ in 0..10 {
            rig.wait(10);
            rig.ack_with(0, bytes, Some(100));
        }
    }
    // Samples of 100 and 200 kB/s: BWE = ⅞·100 + ⅛·200 = 112.5 kB/s, and RTTmin = 100 ms.
    assert_eq!(rig.window(0), 21_000, "the window grows by one packet per window, as in Reno");
    assert_eq!(rig.lose(0), 11_250);
    let mut rig = Rig::new("westwood").path(0, 20_000, MSS);
    assert_eq!(rig.lose(0), 10_000, "half of the window before the first sample");
}

/// Sets the current delay of a path by four samples that do not change the window.
fn ledbat_delay(rig: &mut Rig, rtt_ms: u64) {
    for _ in 0..4 {
        rig.ack_with(0, 0, Some(rtt_ms));
    }
}

#[test]
fn ledbat_aims_at_a_queue_of_100_ms() {
    let mut rig = Rig::new("ledbat").path(0, 20_000, NONE);
    // The base delay is 100 ms. Without a queue, acknowledging a tenth of the window adds a tenth of a packet.
    assert_eq!(rig.ack_with(0, 2_000, Some(100)), 20_100);
    ledbat_delay(&mut rig, 150);
    assert_eq!(
        rig.ack_with(0, 2_010, Some(150)),
        20_150,
        "at half of the target delay, the window grows by half"
    );
    ledbat_delay(&mut rig, 200);
    assert_eq!(rig.ack_with(0, 2_015, Some(200)), 20_150, "at the target delay, the window does not grow");
    ledbat_delay(&mut rig, 300);
    let window = rig.ack_with(0, 2_015, Some(300));
    assert!(
        (20_050..=20_051).contains(&window),
        "at twice the target delay, the window shrinks as fast as it grew: {window}"
    );
    assert_eq!(rig.lose(0), window.div_ceil(2));
    // The minimum window is two packets.
    let mut rig = Rig::new("ledbat").path(0, 2_000, NONE);
    rig.ack_with(0, 0, Some(100));
    ledbat_delay(&mut rig, 900);
    assert_eq!(rig.ack_with(0, 2_000, Some(900)), 2_000);
}

#[test]
fn ledbat_forgets_base_delays_after_ten_minutes() {
    let mut rig = Rig::new("ledbat").path(0, 20_000, NONE);
    rig.ack_with(0, 0, Some(100));
    for minutes in [9, 1] {
        rig.wait(minutes * 60_000);
        ledbat_delay(&mut rig, 200);
        let grown = rig.ack_with(0, 2_000, Some(200)) - 20_000;
        assert_eq!(grown, if minutes == 9 { 0 } else { 100 });
    }
}

#[test]
fn ledbat_compares_one_way_delays_of_any_clock() {
    use anabranch_multipath::shared_bottleneck::{DelaySample, RelativeDelay};
    let mut rig = Rig::new("ledbat").path(0, 20_000, NONE);
    assert!(rig.control.wants_delay_samples());
    // The difference of the clocks wraps around at 2³²: the value 2³² − 20 lies 70 ms before the value 50.
    for millis in [u32::MAX - 19, 50, 50, 50, 50] {
        let delay = RelativeDelay::OneWay(millis);
        rig.control.on_delay(&DelaySample { now: rig.now, path: PathId(0), delay, sent: 1, lost: 0 });
    }
    // A one-way queueing delay of 70 ms; the round-trip time has no effect.
    assert_eq!(rig.ack_with(0, 2_000, Some(500)), 20_030);
}
