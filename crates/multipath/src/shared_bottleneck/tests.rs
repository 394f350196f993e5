//! Statistics and groups are compared with values that were computed by hand.

use super::*;

fn one_way(path: u8, now: Time, ticks: u32) -> DelaySample {
    DelaySample { now, path: PathId(path), delay: RelativeDelay::OneWay(ticks), sent: 0, lost: 0 }
}

/// Adds an interval with these delays: each entry is a number of samples and their delay in milliseconds.
fn interval(statistics: &mut Statistics, delays: &[(u32, u32)]) {
    for &(times, delay) in delays {
        for _ in 0..times {
            statistics.sample(&one_way(0, Time::ZERO, delay));
        }
    }
    statistics.end_interval();
}

/// Returns the statistics after an interval of 40 samples of 100 ms, the mean of which is compared with the next intervals.
fn first_interval() -> Statistics {
    let mut statistics = Statistics::default();
    interval(&mut statistics, &[(40, 100)]);
    assert_eq!(statistics.summary(), Summary::default(), "no mean to compare with");
    statistics
}

/// Asserts that a value equals one that was computed by hand, except for rounding.
#[track_caller]
fn near(value: f64, by_hand: f64) {
    assert!((value - by_hand).abs() < 1e-12, "{value} is not {by_hand}");
}

#[test]
fn skewness_is_samples_below_minus_above_mean() {
    let mut statistics = first_interval();
    // 20 samples equal the mean of 100 ms, 6 lie above it and 14 below it: (14 − 6) / 40.
    interval(&mut statistics, &[(20, 100), (6, 103), (14, 99)]);
    near(statistics.summary().skewness, 0.2);
    assert!(!statistics.summary().bottleneck);
    // The mean of this interval is 100.1 and the long-term mean is 100.05, so 10 more samples lie above it. Both
    // intervals have the same weight: (8 − 10) / 50.
    interval(&mut statistics, &[(10, 101)]);
    near(statistics.summary().skewness, -2.0 / 50.0);
    assert!(statistics.summary().bottleneck);
}

#[test]
fn old_intervals_have_less_weight() {
    let mut statistics = first_interval();
    interval(&mut statistics, &[(40, 101)]);
    near(statistics.summary().skewness, -1.0);
    near(statistics.summary().variability, 1.0);
    for _ in 0..19 {
        interval(&mut statistics, &[]);
    }
    // The long-term mean is 100.5, that of the two intervals with samples, and the mean of the last of these is 101.
    interval(&mut statistics, &[(40, 100)]);
    // The newest of 30 intervals has the weight 11, and the one 20 intervals before it the weight 10: (11 · 40 − 10 ·
    // 40) / (21 · 40).
    near(statistics.summary().skewness, 1.0 / 21.0);
    near(statistics.summary().variability, 1.0);
    // After 29 more intervals only the newest one still counts, with a weight of 1. After one more, no interval counts.
    for _ in 0..29 {
        interval(&mut statistics, &[]);
    }
    near(statistics.summary().skewness, 1.0);
    interval(&mut statistics, &[]);
    assert_eq!(statistics.summary(), Summary::default());
}

#[test]
fn variability_is_distance_from_previous_mean() {
    let mut statistics = first_interval();
    // The distances add up to |104 − 100| · 10 + |102 − 100| · 30 = 100, for 40 samples.
    interval(&mut statistics, &[(10, 104), (30, 102)]);
    near(statistics.summary().variability, 2.5);
    // The mean of the previous interval is 102.5, so 40 samples of 103 add 40 · 0.5: (100 + 20) / 80.
    interval(&mut statistics, &[(40, 103)]);
    near(statistics.summary().variability, 1.5);
}

#[test]
fn path_without_bottleneck_has_no_variability() {
    let mut statistics = first_interval();
    for _ in 0..50 {
        // The delay is usually at its minimum, and sometimes far above it.
        interval(&mut statistics, &[(35, 100), (5, 150)]);
    }
    let summary = statistics.summary();
    assert!(summary.skewness > C_H && !summary.bottleneck, "{summary:?}");
    assert_eq!((summary.variability, summary.frequency), (0.0, 0.0));
}

#[test]
fn oscillation_counts_significant_crossings() {
    let mut statistics = first_interval();
    for _ in 0..10 {
        for delay in [110, 110, 110, 110, 110, 100, 100, 100, 100, 100] {
            interval(&mut statistics, &[(40, delay)]);
        }
    }
    // The mean is 105. The variability is 10 in every fifth interval, 2 on average. So each half period lies
    // significantly on its side of the mean, and 50 intervals contain ten half periods.
    let summary = statistics.summary();
    assert!(summary.bottleneck && (1.5..2.5).contains(&summary.variability), "{summary:?}");
    near(summary.frequency, 10.0 / 50.0);
    // A delay that alternates with each interval varies as much as its amplitude. So no crossing is significant once
    // the last 30 intervals contain only such a delay.
    for _ in 0..45 {
        interval(&mut statistics, &[(40, 110)]);
        interval(&mut statistics, &[(40, 100)]);
    }
    assert!(statistics.summary().bottleneck);
    near(statistics.summary().frequency, 0.0);
}

#[test]
fn bottleneck_test_has_hysteresis() {
    let mut statistics = first_interval();
    interval(&mut statistics, &[(40, 101)]);
    assert!(statistics.summary().bottleneck);
    // (60 − 40) / 100 is above the limit for a path that did not pass a bottleneck before, as above.
    interval(&mut statistics, &[(60, 100)]);
    near(statistics.summary().skewness, 0.2);
    assert!(statistics.summary().bottleneck);
    // (120 − 40) / 160 is above both limits.
    interval(&mut statistics, &[(60, 100)]);
    near(statistics.summary().skewness, 0.5);
    assert!(!statistics.summary().bottleneck);
}

#[test]
fn frequent_losses_indicate_a_bottleneck() {
    let mut statistics = first_interval();
    let count = |statistics: &mut Statistics, sent, lost| {
        for _ in 0..40 {
            statistics.sample(&DelaySample { sent, lost, ..one_way(0, Time::ZERO, 99) });
        }
        statistics.end_interval();
    };
    count(&mut statistics, 1_000, 100);
    near(statistics.summary().loss, 0.1);
    assert!(!statistics.summary().bottleneck, "a tenth is not more than a tenth");
    count(&mut statistics, 1_200, 180);
    near(statistics.summary().loss, 0.15);
    assert!(statistics.summary().bottleneck);
    for _ in 0..49 {
        count(&mut statistics, 1_200, 180);
    }
    near(statistics.summary().loss, 80.0 / 200.0);
    count(&mut statistics, 1_200, 180);
    near(statistics.summary().loss, 0.0);
}

#[test]
fn path_with_few_samples_passes_no_bottleneck() {
    let mut statistics = first_interval();
    for at in 0..60 {
        interval(&mut statistics, if at % 3 == 0 { &[(1, 110)] } else { &[] });
    }
    assert!(!statistics.summary().bottleneck);
    near(statistics.summary().variability, 0.0);
}

#[test]
fn clocks_wrap_and_round_trips_are_accepted() {
    let mut wrapping = Statistics::default();
    interval(&mut wrapping, &[(40, u32::MAX)]);
    interval(&mut wrapping, &[(40, 1)]);
    near(wrapping.summary().variability, 2.0);

    let mut round_trips = Statistics::default();
    let micros = |micros| RelativeDelay::RoundTrip(Duration::from_micros(micros));
    for delay in [50_000, 52_500] {
        for _ in 0..40 {
            round_trips.sample(&DelaySample { delay: micros(delay), ..one_way(0, Time::ZERO, 0) });
        }
        // A one-way delay is ignored after round-trip times.
        round_trips.sample(&one_way(0, Time::ZERO, 1_000));
        round_trips.end_interval();
    }
    assert!((round_trips.summary().variability - 2.5).abs() < 1e-9, "{round_trips:?}");
}

fn summary(frequency: f64, variability: f64, skewness: f64, loss: f64) -> Summary {
    Summary { skewness, variability, frequency, loss, bottleneck: true }
}

fn groups(summaries: &[Summary]) -> Vec<Vec<u8>> {
    let paths: Vec<_> = summaries.iter().enumerate().map(|(at, summary)| (id(at), *summary)).collect();
    let mut groups: Vec<Vec<u8>> =
        group(&paths).iter().map(|group| group.iter().map(|path| path.0).collect()).collect();
    for group in &mut groups {
        group.sort_unstable();
    }
    groups.sort_unstable();
    groups
}

#[test]
fn paths_are_divided_by_each_statistic_in_order() {
    // Neighbours that differ by less than 0.1 stay in a group, although the first and the last differ by more.
    let oscillating = [0.30, 0.10, 0.22, 0.16].map(|frequency| summary(frequency, 10.0, 0.0, 0.0));
    assert_eq!(groups(&oscillating), [[0, 1, 2, 3]]);
    assert_eq!(groups(&oscillating[..2]), [[0], [1]]);
    // The threshold is 10 % of the higher value: 9.1 is in a group with 10, but 9 is not.
    let variable = |of: [f64; 2]| groups(&of.map(|variability| summary(0.1, variability, 0.0, 0.0)));
    assert_eq!(variable([9.1, 10.0]), [[0, 1]]);
    assert_eq!(variable([9.0, 10.0]), [[0], [1]]);
    let skewed = |of: [f64; 2]| groups(&of.map(|skewness| summary(0.1, 10.0, skewness, 0.0)));
    assert_eq!(skewed([-0.1, 0.04]), [[0, 1]]);
    assert_eq!(skewed([-0.1, 0.06]), [[0], [1]]);
    // A small share of losses is ignored. For a larger share, the threshold is 10 % of the higher value.
    let lossy = |of: [f64; 2]| groups(&of.map(|loss| summary(0.1, 10.0, 0.0, loss)));
    assert_eq!(lossy([0.0, 0.1]), [[0, 1]]);
    assert_eq!(lossy([0.19, 0.2]), [[0, 1]]);
    assert_eq!(lossy([0.17, 0.2]), [[0], [1]]);
}

#[test]
fn path_without_bottleneck_is_in_no_group() {
    let idle = Summary { bottleneck: false, ..summary(0.1, 10.0, 0.0, 0.0) };
    assert_eq!(groups(&[summary(0.1, 10.0, 0.0, 0.0), idle, summary(0.1, 10.0, 0.0, 0.0)]), [[0, 2]]);
    assert_eq!(groups(&[idle, idle]), Vec::<Vec<u8>>::new());
    assert_eq!(groups(&[]), Vec::<Vec<u8>>::new());
}

/// Simulates intervals. In each, the delay of a path is the one that `delay` returns for the path and the interval.
fn simulate_intervals(
    detector: &mut Detector,
    from: u64,
    intervals: u64,
    delay: impl Fn(u8, u64) -> Option<u32>,
) {
    for at in from..from + intervals {
        for sample in 0..10 {
            let now = Time::ZERO + BASE_INTERVAL.saturating_mul(at) + Duration::from_millis(30 * sample);
            for path in 0..3 {
                if let Some(delay) = delay(path, at) {
                    // The queue grows during the interval, so that the delay crosses its mean.
                    let ticks = delay + sample as u32;
                    detector.sample(&one_way(path, now, ticks));
                }
            }
        }
    }
}

fn bottlenecks(detector: &Detector) -> Vec<u16> {
    detector.marks().map(|(_, mark)| mark).collect()
}

#[test]
fn paths_are_grouped_after_sixty_intervals() {
    let mut detector = Detector::default();
    (0..3).for_each(|path| detector.add(PathId(path)));
    // The first two paths oscillate with a period of 16 intervals, the third one with a period of 6.
    let delay = |path: u8, at: u64| {
        let half = if path < 2 { 8 } else { 3 };
        Some(100 + u32::from(path) * 1_000 + if (at / half).is_multiple_of(2) { 0 } else { 60 })
    };
    simulate_intervals(&mut detector, 0, u64::from(JUDGED_AFTER), delay);
    assert_eq!(bottlenecks(&detector), [UNKNOWN; 3], "after 59 intervals");
    simulate_intervals(&mut detector, 60, 1, delay);
    assert_eq!(bottlenecks(&detector), [1, 1, 3]);
    simulate_intervals(&mut detector, 61, 9, delay);
    let grouping = detector.grouping(PathId(1)).expect("the path is monitored");
    assert_eq!((grouping.decisions, grouping.shared, grouping.bottlenecked), (10, 10, 10));
    assert_eq!((grouping.shared_share(), grouping.bottleneck_share()), (Some(1.0), Some(1.0)));
    assert_eq!(detector.grouping(PathId(2)).and_then(|third| third.shared_share()), Some(0.0));
    // A path that was added later is not grouped yet. A removed path has no result.
    detector.add(PathId(2));
    detector.remove(PathId(0));
    simulate_intervals(&mut detector, 70, 2, delay);
    assert_eq!(bottlenecks(&detector), [2, UNKNOWN]);
    assert_eq!(detector.grouping(PathId(0)), None);
    assert_eq!(detector.grouping(PathId(7)), None);
}

#[test]
fn idle_path_leaves_its_group() {
    let mut detector = Detector::default();
    (0..2).for_each(|path| detector.add(PathId(path)));
    let saw = |at: u64| 100 + if (at / 8).is_multiple_of(2) { 0 } else { 60 };
    simulate_intervals(&mut detector, 0, 80, |path, at| (path < 2).then(|| saw(at)));
    assert_eq!(bottlenecks(&detector), [1, 1]);
    simulate_intervals(&mut detector, 80, 31, |path, at| (path == 0).then(|| saw(at)));
    assert_eq!(bottlenecks(&detector), [1, 2]);
    assert!(detector.summary(PathId(1)).is_some_and(|silent| !silent.bottleneck));
}

#[test]
fn long_idle_time_resets_the_detector() {
    let mut detector = Detector::default();
    (0..2).for_each(|path| detector.add(PathId(path)));
    simulate_intervals(&mut detector, 0, 80, |path, at| {
        (path < 2).then(|| 100 + if (at / 8).is_multiple_of(2) { 0 } else { 60 })
    });
    let decisions = detector.grouping(PathId(0)).map(|grouping| grouping.decisions);
    assert!(detector.sample(&one_way(0, Time::ZERO + Duration::from_secs(86_400), 100)));
    assert_eq!(bottlenecks(&detector), [1, 2]);
    assert_eq!(detector.summary(PathId(0)), Some(Summary::default()));
    assert_eq!(
        detector.grouping(PathId(0)).map(|grouping| grouping.decisions),
        decisions.map(|decisions| decisions + N as u64),
        "a day of intervals is not processed one by one"
    );
    assert!(!detector.sample(&one_way(0, Time::ZERO + Duration::from_secs(86_400), 100)));
}
