//! Nothing is lost silently: two ends of Multipath TCP behind a network that interferes.
//!
//! `cargo test --release -p anabranch-host --test middlebox -- --ignored --nocapture` tries 20,000 programs and more
//! (`MIDDLEBOX_RUNS` says how many).

mod interference;

use anabranch_base::rng::Rng;

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
fn nothing_is_sent_twice_to_a_peer_that_may_fall_back() {
    // The client's join is answered, and the server hears no more of it; nothing is acknowledged in time, so that the
    // client repairs data, and DATA_ACKs vanish, so that the server goes on as plain TCP.
    let reached = interference::program(&[
        144, 2, 191, 75, 112, 68, 91, 56, 55, 186, 216, 114, 91, 73, 1, 249, 192, 232, 183, 106, 12, 147, 9,
        218, 31, 106, 168, 38, 202, 211, 145, 230, 144, 22, 87, 148, 195, 222, 220, 243, 159, 224, 93, 230,
        71, 198, 103, 75,
    ]);
    assert!(reached.complete || reached.error, "{reached:?}");
}

#[test]
fn a_subflow_that_ended_before_the_data_is_not_taken_for_the_connection() {
    // The server goes on as plain TCP and ends it, which the client takes for the end of a subflow, and ends that too.
    let reached = interference::program(&[
        121, 55, 84, 163, 203, 32, 110, 201, 249, 60, 42, 178, 32, 241, 101, 63, 155, 183, 17, 219, 139, 170,
        205, 169, 29, 116, 178, 38, 205, 24, 63, 81, 1, 229, 20, 76, 11, 166, 68, 21, 236, 198, 69, 238, 195,
        9, 129, 113,
    ]);
    assert!(reached.complete || reached.error, "{reached:?}");
}

#[test]
fn what_no_data_ack_tells_of_is_not_sent_twice_to_a_peer_that_may_fall_back() {
    // From the second round trip on nothing acknowledges data any more, and the client believes in a subflow whose options are
    // taken out because an address is announced on it. Its data was read, and what it sent again was read as plain TCP.
    let reached = interference::program(&[
        50, 72, 72, 0, 0, 0, 0, 0, 79, 1, 255, 198, 193, 52, 36, 255, 255, 234, 1, 64, 64, 64, 236, 255, 13,
        212, 72, 72, 0, 0, 0, 0, 0, 0, 0, 0, 96, 13, 212, 220, 45,
    ]);
    assert!(reached.complete || reached.error, "{reached:?}");
}

#[test]
fn what_the_reader_waits_for_is_repeated_first() {
    // Segments are cut into pieces of which half are lost, so that subflows die young: what each carried before would arrive
    // again and again, and never what is missing.
    let reached = interference::program(&[
        1, 255, 255, 255, 255, 254, 255, 200, 255, 255, 255, 255, 255, 11, 166, 65, 255, 0, 246, 211, 0, 91,
        255, 255, 67, 252, 96, 13, 255, 192, 190, 39, 39, 45, 14, 0, 58, 253, 195, 89, 10, 255, 0, 255, 255,
        11, 168, 0, 68, 33, 251, 216, 203, 126, 0, 220, 255, 48,
    ]);
    assert!(reached.complete || reached.error, "{reached:?}");
}

#[test]
#[ignore = "it takes a while: 20,000 runs"]
fn every_byte_arrives_or_both_ends_know_better_in_20_000_runs() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    run(number("MIDDLEBOX_SEED", 2), number("MIDDLEBOX_RUNS", 20_000));
}
