//! Coupling by shared bottlenecks, in whole runs over the networks of the study `shared-bottleneck`.

use super::cases::text::read;
use anabranch_sim::{RunOptions, RunResult};

const SHARED: &str = include_str!("../../../../python/anabranch/studies/shared-bottleneck/shared.toml");
const DISJOINT: &str = include_str!("../../../../python/anabranch/studies/shared-bottleneck/disjoint.toml");

/// A run of 160 s with further settings: decisions from 21 s on, measured from 40 s on.
fn run(text: &str, settings: &[(&str, &str)]) -> RunResult {
    let mut all = vec![("duration", "160 s"), ("warmup", "40 s")];
    all.extend(settings);
    anabranch_sim::run(&read(text, &all), &RunOptions::default()).expect("the run succeeds")
}

/// Goodput of the multipath flow, Mbit/s.
fn multipath(result: &RunResult) -> f64 {
    result.flows[0].goodput_bps / 1e6
}

/// The share of decisions by which both paths were coupled. Both paths must have the same share.
fn coupled(result: &RunResult) -> f64 {
    let [a, b] = result.flows[0].paths.as_slice() else { panic!("two paths") };
    assert_eq!(a.coupled_share, b.coupled_share);
    a.coupled_share.expect("the paths were judged")
}

const COUPLE_ALL: (&str, &str) = ("flow.F0.couple", "all");
const COUPLE_SHARED: (&str, &str) = ("flow.F0.couple", "shared");
const UNCOUPLED: (&str, &str) = ("flow.F0.congestion", "reno");

#[test]
fn paths_of_one_bottleneck_are_mostly_coupled() {
    let [all, found, none] = [COUPLE_ALL, COUPLE_SHARED, UNCOUPLED].map(|setting| run(SHARED, &[setting]));
    assert!(coupled(&found) > 0.5, "{}", coupled(&found));
    let [all, found, none] = [&all, &found, &none].map(multipath);
    // The share is closer to one half of the link (all paths coupled) than to two thirds (uncoupled).
    assert!(found - all < none - found, "{all} {found} {none}");
}

#[test]
fn separate_bottlenecks_are_as_fast_as_uncoupled() {
    let unequal = ("link.beta.rate", "10 Mbit/s");
    let [all, found, none] =
        [COUPLE_ALL, COUPLE_SHARED, UNCOUPLED].map(|setting| run(DISJOINT, &[setting, unequal]));
    assert!(coupled(&found) < 0.2, "{}", coupled(&found));
    for path in &found.flows[0].paths {
        assert!(path.bottleneck_share > Some(0.9), "{path:?}");
    }
    let [all, found, none] = [&all, &found, &none].map(multipath);
    assert!(found > 0.9 * none && found > 1.2 * all, "{all} {found} {none}");
}

#[test]
fn similar_bottlenecks_are_mostly_distinguished() {
    let [all, found, none] = [COUPLE_ALL, COUPLE_SHARED, UNCOUPLED].map(|setting| run(DISJOINT, &[setting]));
    assert!((0.05..0.5).contains(&coupled(&found)), "{}", coupled(&found));
    let [all, found, none] = [&all, &found, &none].map(multipath);
    assert!(found > 0.85 * none && found > 1.2 * all, "{all} {found} {none}");
}

#[test]
fn moving_bottleneck_is_detected() {
    // From 120 s on the receiver's link is the bottleneck of both paths and of F1. Link "beta" is then no
    // bottleneck.
    let moves =
        format!("{DISJOINT}\n[[event]]\nat = \"120 s\"\nlink = \"D\"\nset = {{ rate = \"20 Mbit/s\" }}\n");
    let settings = [
        COUPLE_SHARED,
        ("flow.F1.to", "D"),
        ("flow.F2.stop", "120 s"),
        ("link.D.queue.limit", "100 packets"),
    ];
    // Decisions about a path are made from 21 s of its life on.
    let decided = |until: &str, seconds: f64| {
        let result = run(&moves, &[&settings[..], &[("duration", until)]].concat());
        coupled(&result) * (seconds - 21.0)
    };
    let before = decided("121 s", 121.0);
    let turned = decided("142 s", 142.0);
    let after = decided("322 s", 322.0);
    let (first, then) = (before / 100.0, (after - turned) / 180.0);
    assert!(first < 0.4 && then > 0.5, "{first} {then}");
}

#[test]
fn flow_that_couples_all_has_no_detection() {
    let result = run(SHARED, &[COUPLE_ALL, ("duration", "50 s")]);
    for path in &result.flows[0].paths {
        assert_eq!((path.bottleneck, path.bottleneck_share, path.coupled_share), (None, None, None));
    }
    // Detection has made no decision in the first 20 s, so all packets are equal to those without detection.
    let settings = [("duration", "20 s"), ("warmup", "0 s")];
    let [all, found] =
        [COUPLE_ALL, COUPLE_SHARED].map(|setting| run(SHARED, &[&settings[..], &[setting]].concat()));
    assert_eq!(all.digest, found.digest);
    for path in &found.flows[0].paths {
        assert_eq!((path.bottleneck, path.coupled_share), (Some(0), None));
    }
}

#[test]
fn round_trip_times_replace_timestamps() {
    let result = run(SHARED, &[COUPLE_SHARED, ("flow.F0.timestamps", "false")]);
    assert!(result.flows[0].paths.iter().all(|path| path.bottleneck_share > Some(0.9)), "{result:?}");
    assert!(coupled(&result) > 0.3, "{}", coupled(&result));
}
