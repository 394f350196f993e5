//! Runs the fuzz targets for pairs of ends with random programs, without the fuzzer's toolchain.

mod fuzz_bodies;

use anabranch_base::rng::Rng;
use proptest::prelude::*;

#[test]
fn pairs_survive_random_programs() {
    const ROUNDS: usize = 10_000;
    let mut rng = Rng::new(1);
    let (mut delivered, mut several, mut honest) = (0, 0, 0);
    for round in 0..ROUNDS {
        let program: Vec<u8> = (0..rng.below(900)).map(|_| rng.below(256) as u8).collect();
        // Programs of odd rounds forge no packets, so every byte must arrive.
        let program: Vec<u8> = if round % 2 == 1 {
            program
                .iter()
                .map(|&byte| if (12..=15).contains(&(byte % 32)) { byte ^ 16 } else { byte })
                .collect()
        } else {
            program
        };
        let reached = fuzz_bodies::tcp_pair(&program);
        delivered += usize::from(reached.delivered);
        several += usize::from(reached.several_paths);
        honest += usize::from(!reached.mutated);
    }
    println!(
        "of {ROUNDS} programs {delivered} delivered data, {several} over several paths, {honest} without forged packets"
    );
    assert!(
        delivered > ROUNDS / 4 && several > ROUNDS / 50 && honest > ROUNDS / 3,
        "{delivered} {several} {honest}"
    );
}

/// Number of random programs for each property below: `PROPTEST_CASES`, or 1,500.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_500)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The network drops, duplicates, delays and reorders packets and chunks, and paths fail. Every byte arrives, or
    /// the end that wrote it gets an error.
    #[test]
    fn associations_lose_nothing_silently(program in prop::collection::vec(any::<u8>(), 0..900)) {
        let honest: Vec<u8> = program.iter().enumerate().map(|(at, &byte)| if at == 0 { byte & !1 } else { byte }).collect();
        let reached = fuzz_bodies::sctp::sctp_pair(&honest);
        prop_assert!(!reached.mutated);
    }

    /// The network forges some packets as well. The ends do not panic, and their memory stays bounded.
    #[test]
    fn associations_survive_forgers(program in prop::collection::vec(any::<u8>(), 1..900)) {
        let lying: Vec<u8> = program.iter().enumerate().map(|(at, &byte)| if at == 0 { byte | 1 } else { byte }).collect();
        fuzz_bodies::sctp::sctp_pair(&lying);
    }
}

#[test]
fn random_programs_reach_several_paths() {
    let mut rng = Rng::new(2);
    let (mut delivered, mut several) = (0, 0);
    for _ in 0..500 {
        let program: Vec<u8> = (0..rng.below(900)).map(|_| rng.below(256) as u8).collect();
        let reached = fuzz_bodies::sctp::sctp_pair(&program);
        delivered += usize::from(reached.delivered);
        several += usize::from(reached.several_paths);
    }
    assert!(
        delivered > 150 && several > 50,
        "of 500 programs {delivered} delivered, {several} over several paths"
    );
}
