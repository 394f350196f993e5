//! Nothing is lost silently: two ends of Multipath TCP behind a network that interferes.
//!
//! `cargo test --release -p anabranch-transport --test middlebox -- --ignored --nocapture` tries 20,000 programs and more
//! (`MIDDLEBOX_RUNS` says how many).

mod interference;

use multipath::rng::Rng;

/// Runs so many random programs from a seed; says what they reached.
fn run(seed: u64, runs: u64) -> [u64; 4] {
    let mut rng = Rng::new(seed);
    let mut sum = [0; 4];
    for run in 0..runs {
        let program: Vec<u8> = (0..48).map(|_| rng.below(256) as u8).collect();
        let outcome = std::panic::catch_unwind(|| interference::program(&program));
        let reached = outcome.unwrap_or_else(|_| panic!("run {run} of seed {seed}: {program:?}"));
        let kinds = [reached.complete, reached.fallback, reached.error, reached.several_paths];
        for (sum, kind) in sum.iter_mut().zip(kinds) {
            *sum += u64::from(kind);
        }
    }
    println!("of {runs} runs {sum:?} were complete, plain TCP, with an error, over several paths");
    sum
}

#[test]
fn every_byte_arrives_or_both_ends_know_better() {
    const RUNS: u64 = 1500;
    let [complete, fallback, error, several] = run(1, RUNS);
    assert!(complete > RUNS / 3 && fallback > RUNS / 20 && error > RUNS / 50 && several > RUNS / 10);
}

#[test]
#[ignore = "it takes a while: 20,000 runs"]
fn every_byte_arrives_or_both_ends_know_better_in_20_000_runs() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    run(number("MIDDLEBOX_SEED", 2), number("MIDDLEBOX_RUNS", 20_000));
}
