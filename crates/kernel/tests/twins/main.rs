//! Compares the congestion controls for the kernel, in C, with their counterparts in Rust. Both get the same sequence
//! of events. The resulting windows may differ by a packet or 1 %, because the C code uses fixed-point numbers.
//!
//! After each event, the C code continues with the window of the Rust code, and the difference is added to its fraction
//! of a packet. Otherwise, rounding differences would accumulate, and would determine after some losses which path has
//! the largest window.
#![cfg(target_os = "linux")]

mod events;
mod pair;
mod program;

use anabranch_multipath::congestion::SlowStart;
use events::Random;
use pair::{Comparison, Pair};
use proptest::prelude::*;
use std::fs;
use std::path::Path;

const CONTROLS: [&str; 6] = ["lia", "olia", "balia", "cmt-rpv1", "cmt-rpv2", "wvegas"];

/// Applies the events of several random connections of equal length to a congestion control in C and in Rust.
fn compared(
    control: &str,
    slow_start: SlowStart,
    seeds: impl Iterator<Item = u64>,
    length: usize,
) -> Option<Comparison> {
    let program = program::compiled(control)?;
    let mut all = Comparison::default();
    for seed in seeds {
        let mut pair = Pair::new(control, slow_start);
        Random::new(seed, length).apply_all(&mut pair);
        all.add(&pair.compare(&program, &format!("{control}, seed {seed}")));
    }
    assert!(all.far <= 1 + all.events / 100_000, "{control}: {all}");
    Some(all)
}

#[test]
fn random_connections_have_equal_windows() {
    for control in CONTROLS {
        let Some(all) = compared(control, SlowStart::Rfc, 0..40, 2_000) else { return };
        println!("{control}: {all}");
        assert!(all.events > 70_000);
    }
}

#[test]
fn coupled_slow_starts_have_equal_windows() {
    let Some(all) = compared("lia", SlowStart::Coupled, 0..40, 2_000) else { return };
    println!("lia: {all}");
    assert!(all.events > 70_000);
}

#[test]
#[ignore = "ten million events of each control take minutes"]
fn ten_million_events_have_equal_windows() {
    for control in CONTROLS {
        let Some(all) = compared(control, SlowStart::Rfc, 1_000..3_100, 5_000) else { return };
        println!("{control}: {all}");
        assert!(all.events >= 9_900_000);
    }
}

#[test]
fn shared_vectors_have_equal_windows() {
    for control in CONTROLS {
        let Some(program) = program::compiled(control) else { return };
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../vectors/congestion/{control}.jsonl"));
        let text = fs::read_to_string(file).expect("the vectors are in the repository");
        let mut pair = Pair::new(control, SlowStart::Rfc);
        events::recorded(&text, &mut pair);
        let all = pair.compare(&program, control);
        println!("{control}: {all}");
        assert!(all.events > 200);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_connection_has_equal_windows(seed: u64, length in 10_usize..400, control in 0..CONTROLS.len()) {
        compared(CONTROLS[control], SlowStart::Rfc, std::iter::once(seed), length);
    }
}
