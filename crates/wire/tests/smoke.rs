//! The bodies of the fuzz targets on many mutated inputs, the same on every run and on any toolchain.

mod fuzz_bodies;
mod strategies;
mod vectors;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

/// `SplitMix64`: random enough for changing bytes, with the same numbers in every run.
struct Rng(u64);

impl Rng {
    /// A random number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Seed inputs: packets of Linux and of the strategies.
fn seeds(runner: &mut TestRunner) -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = vectors::linux().into_iter().map(|(_, bytes)| bytes).collect();
    for _ in 0..200 {
        let packet = strategies::packet(60).new_tree(runner).expect("a strategy without filters").current();
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        seeds.push(bytes);
    }
    seeds
}

/// Changes, removes, repeats or inserts a few bytes.
fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len());
        match rng.below(6) {
            0 => bytes[at] = rng.below(256) as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes[at] = [0, 1, 2, 4, 8, 30, 127, 128, 255][rng.below(9)],
            3 => bytes.truncate(at),
            4 => bytes.insert(at, rng.below(256) as u8),
            _ => {
                let end = (at + rng.below(24)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
}

#[test]
fn fuzz_bodies_survive_mutated_packets() {
    const ROUNDS: usize = 40_000;
    let mut rng = Rng(1);
    let mut runner = TestRunner::deterministic();
    let seeds = seeds(&mut runner);
    let mut parsed = [0; 3];
    for round in 0..ROUNDS {
        let mut bytes = seeds[round % seeds.len()].clone();
        mutate(&mut bytes, &mut rng);
        parsed[0] += usize::from(fuzz_bodies::packet(&bytes));
        // Byte 40 starts the TCP options; in most seeds byte 54 starts the first Multipath TCP option.
        let options = bytes.get(40..).unwrap_or_default();
        parsed[1] += usize::from(fuzz_bodies::tcp_options(&options[..options.len().min(40)]));
        parsed[2] += usize::from(fuzz_bodies::mptcp_option(bytes.get(54..).unwrap_or_default()));
        fuzz_bodies::sctp(bytes.get(20..).unwrap_or_default());
    }
    println!(
        "of {ROUNDS} inputs parsed: packets {}, options {}, MPTCP options {}",
        parsed[0], parsed[1], parsed[2]
    );
    assert!(parsed[0] > ROUNDS / 4 && parsed[1] > ROUNDS / 20 && parsed[2] > ROUNDS / 20, "{parsed:?}");
}

#[test]
fn gre_survives_mutated_headers() {
    const ROUNDS: usize = 20_000;
    let mut rng = Rng(3);
    let mut parsed = 0;
    for round in 0..ROUNDS {
        // A key and an IPv4 packet, in every tenth packet with a flag.
        let mut bytes = vec![0x20, 0, 8, 0, 0, 0, 0, 1, 0x45, 0, 0, 20];
        bytes[0] |= if round % 10 == 0 { 1 << rng.below(8) } else { 0 };
        mutate(&mut bytes, &mut rng);
        parsed += usize::from(fuzz_bodies::gre(&bytes));
    }
    assert!(parsed > ROUNDS / 4, "{parsed} of {ROUNDS}");
}

#[test]
fn network_control_survives_mutations() {
    const ROUNDS: usize = 20_000;
    let mut rng = Rng(2);
    let mut parsed = 0;
    for round in 0..ROUNDS {
        // The chunk from its flags on: length 184, path 0 of 2.
        let mut bytes = vec![0; 183];
        (bytes[2], bytes[8], bytes[9]) = (184, 2, (round % 10) as u8);
        mutate(&mut bytes, &mut rng);
        parsed += usize::from(fuzz_bodies::network_control(&bytes));
    }
    assert!(parsed > ROUNDS / 10, "{parsed}");
}

#[test]
fn network_options_survive_mutations() {
    const ROUNDS: usize = 20_000;
    let mut rng = Rng(4);
    let mut parsed = [0; 2];
    for round in 0..ROUNDS {
        let version = round % 2;
        // Options of an IPv4 header or of a hop-by-hop header, with path 0 of 2.
        let mut bytes = if version == 0 { vec![0, 158, 26] } else { vec![1, 0x3e, 24] };
        bytes.extend_from_slice(&[190, 0, 0, 184, 1, 2, 3, 4, 0, 2, 0, 0]);
        bytes.resize(3 + 24, 0);
        bytes.extend_from_slice(if version == 0 { &[0; 2] } else { &[1, 2, 0, 0] });
        mutate(&mut bytes, &mut rng);
        if let Some(first) = bytes.first_mut() {
            *first = version as u8;
        }
        parsed[version] += usize::from(fuzz_bodies::network_option(&bytes));
    }
    assert!(parsed.iter().all(|&parsed| parsed > ROUNDS / 20), "{parsed:?}");
}

#[test]
fn source_routes_survive_mutations() {
    const ROUNDS: usize = 20_000;
    let mut rng = Rng(5);
    let mut followed = 0;
    for round in 0..ROUNDS {
        let hops = 1 + round % 9;
        let mut bytes = vec![131, 3 + 4 * hops as u8, 4];
        bytes.resize(3 + 4 * hops, 10);
        bytes.push(0);
        mutate(&mut bytes, &mut rng);
        followed += usize::from(fuzz_bodies::source_route(&bytes));
    }
    assert!(followed > ROUNDS / 20 && followed < ROUNDS, "{followed}");
}
