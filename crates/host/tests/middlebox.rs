//! Two ends of Multipath TCP and middleboxes between them: either every byte arrives, or both applications get an error.
//!
//! `cargo test --release -p anabranch-host --test middlebox -- --ignored --nocapture` tries 20,000 programs, or
//! `MIDDLEBOX_RUNS`.

mod interference;

use anabranch_base::rng::Rng;

/// Runs random programs from a seed. Counts the runs that completed, fell back to plain TCP, ended with an error and used
/// several paths.
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
fn both_ends_get_every_byte_or_an_error() {
    /// Number of random runs.
    const RUNS: u64 = 1500;
    let [complete, fallback, error, several] = run(1, RUNS);
    assert!(complete > RUNS / 3 && fallback > RUNS / 20 && error > RUNS / 50 && several > RUNS / 10);
}

#[test]
fn unconfirmed_join_never_duplicates_plain_data() {
    // The server answers the client's MP_JOIN but receives no further segment of that subflow. Acknowledgements are
    // late, so the client retransmits data. A middlebox strips the DATA_ACKs, so the server falls back to plain TCP.
    let reached = interference::program(&[
        144, 2, 191, 75, 112, 68, 91, 56, 55, 186, 216, 114, 91, 73, 1, 249, 192, 232, 183, 106, 12, 147, 9,
        218, 31, 106, 168, 38, 202, 211, 145, 230, 144, 22, 87, 148, 195, 222, 220, 243, 159, 224, 93, 230,
        71, 198, 103, 75,
    ]);
    assert!(reached.complete || reached.error, "{reached:?}");
}

#[test]
fn early_fin_does_not_truncate_the_stream() {
    // The server has fallen back to plain TCP, so its FIN ends the connection. The client treats the FIN as the end
    // of one subflow and closes that subflow.
    let reached = interference::program(&[
        121, 55, 84, 163, 203, 32, 110, 201, 249, 60, 42, 178, 32, 241, 101, 63, 155, 183, 17, 219, 139, 170,
        205, 169, 29, 116, 178, 38, 205, 24, 63, 81, 1, 229, 20, 76, 11, 166, 68, 21, 236, 198, 69, 238, 195,
        9, 129, 113,
    ]);
    assert!(reached.complete || reached.error, "{reached:?}");
}

#[test]
fn missing_data_acks_never_duplicate_plain_data() {
    // From the second round trip on no DATA_ACK arrives. A middlebox strips the options of one subflow; an ADD_ADDR
    // on it makes the client treat it as Multipath TCP all the same. The server has read the data of the subflow and
    // would read the retransmitted copy as new bytes of plain TCP.
    let reached = interference::program(&[
        50, 72, 72, 0, 0, 0, 0, 0, 79, 1, 255, 198, 193, 52, 36, 255, 255, 234, 1, 64, 64, 64, 236, 255, 13,
        212, 72, 72, 0, 0, 0, 0, 0, 0, 0, 0, 96, 13, 212, 220, 45,
    ]);
    assert!(reached.complete || reached.error, "{reached:?}");
}

#[test]
fn first_missing_byte_is_retransmitted_first() {
    // Segments are split and half of the pieces are lost, so every subflow soon fails. If the sender did not prefer
    // the first missing byte, the network would deliver the same data repeatedly but never the missing data.
    let reached = interference::program(&[
        1, 255, 255, 255, 255, 254, 255, 200, 255, 255, 255, 255, 255, 11, 166, 65, 255, 0, 246, 211, 0, 91,
        255, 255, 67, 252, 96, 13, 255, 192, 190, 39, 39, 45, 14, 0, 58, 253, 195, 89, 10, 255, 0, 255, 255,
        11, 168, 0, 68, 33, 251, 216, 203, 126, 0, 220, 255, 48,
    ]);
    assert!(reached.complete || reached.error, "{reached:?}");
}

#[test]
#[ignore = "long test: 20,000 runs"]
fn both_ends_get_bytes_or_errors_in_20_000_runs() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    run(number("MIDDLEBOX_SEED", 2), number("MIDDLEBOX_RUNS", 20_000));
}
