//! Tests that only paths with a shared bottleneck are coupled.

use crate::rig::{MSS, Rig};
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{ALGORITHMS, Choice, Couple, Options};
use anabranch_multipath::shared_bottleneck::{
    BASE_INTERVAL, DelaySample, JUDGED_AFTER, RelativeDelay, UNKNOWN,
};

/// Reports `rounds` rounds of acknowledgements and losses on a path, with varying round-trip times.
fn acknowledge_and_lose(rig: &mut Rig, path: u8, rounds: u64) {
    for round in 0..rounds {
        rig.now += Duration::from_millis(10);
        rig.ack_with(path, MSS + 100 * u64::from(path), Some(50 + (round + 7 * u64::from(path)) % 40));
        if round % 97 == 96 {
            rig.lose(path);
            rig.recover(path);
        }
    }
}

fn pair(name: &str) -> Rig {
    Rig::pair(name, [20, 10], [60, 80])
}

/// Returns the names of the coupled congestion controls.
fn coupled() -> impl Iterator<Item = &'static str> {
    ALGORITHMS.iter().filter(|entry| entry.coupled).map(|entry| entry.name)
}

#[test]
fn path_of_other_bottleneck_is_not_coupled() {
    for name in coupled() {
        let mut both = pair(name);
        both.control.set_bottleneck(PathId(0), 1);
        both.control.set_bottleneck(PathId(1), 2);
        let mut alone = Rig::new(name).path(0, 20 * MSS, MSS);
        alone.measure(0, 60);
        let mut together = pair(name);
        for _ in 0..50 {
            let now = both.now;
            acknowledge_and_lose(&mut both, 1, 10);
            acknowledge_and_lose(&mut together, 1, 10);
            (both.now, together.now) = (now, now);
            for rig in [&mut both, &mut alone, &mut together] {
                acknowledge_and_lose(rig, 0, 10);
            }
            assert_eq!(both.window(0), alone.window(0), "{name}");
        }
        assert_ne!(both.window(0), together.window(0), "{name} couples otherwise");
    }
}

#[test]
fn paths_of_same_or_unknown_bottleneck_are_coupled() {
    for name in coupled() {
        for marks in [[1, 1], [UNKNOWN, 2], [1, UNKNOWN]] {
            let (mut marked, mut plain) = (pair(name), pair(name));
            for (path, mark) in [(0, marks[0]), (1, marks[1])] {
                marked.control.set_bottleneck(PathId(path), mark);
            }
            for rig in [&mut marked, &mut plain] {
                acknowledge_and_lose(rig, 0, 200);
                acknowledge_and_lose(rig, 1, 200);
            }
            assert_eq!([marked.window(0), marked.window(1)], [plain.window(0), plain.window(1)], "{name}");
        }
    }
}

#[test]
fn path_that_changes_its_group_keeps_its_window() {
    let mut rig = Rig::pair("lia", [10, 10], [100, 100]);
    // Two equal coupled paths: each grows by 1000² / 40,000 bytes per acknowledgement, a quarter of the growth of TCP.
    assert_eq!(rig.ack(0, MSS), 10_025);
    rig.control.set_bottleneck(PathId(0), 1);
    rig.control.set_bottleneck(PathId(1), 2);
    assert_eq!((rig.window(0), rig.window(1)), (10_025, 10_000));
    // A path without a shared bottleneck grows as in Reno, by 1000² / 10,025 bytes.
    assert_eq!(rig.ack(0, MSS), 10_124);
    rig.control.set_bottleneck(PathId(1), 1);
    // 1000² · 10,124 / (10,124 + 10,000)² = 25.
    assert_eq!(rig.ack(0, MSS), 10_149);
    // A group with a path that was never added has no effect.
    rig.control.set_bottleneck(PathId(5), 1);
    assert_eq!(rig.window(5), 0);
}

/// Reports delays to a congestion control for `intervals` base intervals. The queue of each path fills and empties with
/// the given period, in intervals.
fn report_delays(rig: &mut Rig, intervals: u64, periods: [u64; 2]) {
    for at in 0..intervals {
        for sample in 0..10 {
            for (path, period) in periods.into_iter().enumerate() {
                let full = at % period >= period / 2;
                let ticks = 20 + sample as u32 + if full { 60 } else { 0 };
                rig.control.on_delay(&DelaySample {
                    now: rig.now + Duration::from_millis(30 * sample),
                    path: PathId(path as u8),
                    delay: RelativeDelay::OneWay(ticks),
                    sent: at * 10,
                    lost: 0,
                });
            }
        }
        rig.now += BASE_INTERVAL;
    }
}

#[test]
fn control_separates_paths_by_their_delays() {
    let options = Options { couple: Couple::Shared, ..Options::default() };
    for (periods, grown, marks) in [([16, 16], 10_025, [1, 1]), ([16, 6], 10_100, [1, 2])] {
        let entry = anabranch_multipath::congestion::find("lia").expect("the name is in the table");
        let mut rig = Rig { control: Choice { entry, options }.build(), now: Time::ZERO }
            .path(0, 10 * MSS, MSS)
            .path(1, 10 * MSS, MSS);
        rig.measure(0, 100);
        rig.measure(1, 100);
        let mark = |rig: &Rig, path| rig.control.grouping(PathId(path)).map(|grouping| grouping.bottleneck);
        report_delays(&mut rig, u64::from(JUDGED_AFTER), periods);
        assert_eq!([mark(&rig, 0), mark(&rig, 1)], [Some(UNKNOWN); 2]);
        report_delays(&mut rig, 2, [16, 16]);
        assert_eq!([mark(&rig, 0), mark(&rig, 1)], marks.map(Some));
        assert_eq!(rig.ack(0, MSS), grown);
        assert_eq!(mark(&rig, 2), None);
    }
}
