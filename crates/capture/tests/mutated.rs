//! Mutated captures are read without a panic.

#[path = "fuzz_bodies/capture.rs"]
mod body;
mod traffic;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// A change of a capture.
#[derive(Clone, Debug)]
enum Change {
    Byte(usize, u8),
    Word(usize, u32),
    Cut(usize),
    Remove(usize, usize),
    Repeat(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<usize>();
    let word = prop_oneof![Just(0), Just(u32::MAX), Just(1 << 31), any::<u32>(), (0..70_000_u32)];
    prop_oneof![
        8 => (at, any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        4 => (at, word).prop_map(|(at, word)| Change::Word(at, word)),
        1 => at.prop_map(Change::Cut),
        1 => (at, 1..200_usize).prop_map(|(at, len)| Change::Remove(at, len)),
        1 => (at, 1..2_000_usize).prop_map(|(at, len)| Change::Repeat(at, len)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let Some(last) = bytes.len().checked_sub(1) else { return };
    match *change {
        Change::Byte(at, byte) => bytes[at % (last + 1)] = byte,
        Change::Word(at, word) => {
            let at = at % (last + 1);
            let end = (at + 4).min(bytes.len());
            let word = word.to_le_bytes();
            bytes[at..end].copy_from_slice(&word[..end - at]);
        }
        Change::Cut(at) => bytes.truncate(at % (last + 1)),
        Change::Remove(at, len) => {
            let at = at % (last + 1);
            bytes.drain(at..(at + len).min(last + 1));
        }
        Change::Repeat(at, len) => {
            let at = at % (last + 1);
            let part = bytes[at..(at + len).min(last + 1)].to_vec();
            bytes.splice(at..at, part);
        }
    }
}

/// Captures of all protocols and formats.
fn seeds() -> [Vec<u8>; 4] {
    let mptcp = traffic::two_subflows();
    [
        traffic::pcapng(&mptcp, 0),
        traffic::pcapng(&mptcp, 90),
        traffic::pcap(&mptcp),
        traffic::pcapng(&traffic::association(), 0),
    ]
}

fn mutate(cases: u32) {
    let seeds = seeds();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let program = (0..seeds.len(), prop::collection::vec(change(), 1..12));
    let result = TestRunner::new(config).run(&program, |(seed, changes)| {
        let mut bytes = seeds[seed].clone();
        for change in &changes {
            apply(&mut bytes, change);
        }
        body::capture(&bytes);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn mutated_captures_are_read_without_panic() {
    mutate(2_000);
}

#[test]
#[ignore = "takes a minute; cargo test --release -p anabranch-capture --test mutated -- --ignored"]
fn many_mutated_captures_are_read_without_panic() {
    mutate(100_000);
}
