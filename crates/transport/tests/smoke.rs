//! The body of the fuzz target for TCP and Multipath TCP on many random programs, on any toolchain and always the same.

mod fuzz_bodies;

use multipath::rng::Rng;

#[test]
fn pairs_survive_random_programs() {
    const ROUNDS: usize = 10_000;
    let mut rng = Rng::new(1);
    let (mut delivered, mut several, mut honest) = (0, 0, 0);
    for round in 0..ROUNDS {
        let program: Vec<u8> = (0..rng.below(900)).map(|_| rng.below(256) as u8).collect();
        // Programs of the odd rounds have no lies in them, so that their ends can be held to every byte.
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
        "of {ROUNDS} programs {delivered} delivered data, {several} over several paths, {honest} without a lie"
    );
    assert!(
        delivered > ROUNDS / 4 && several > ROUNDS / 50 && honest > ROUNDS / 3,
        "{delivered} {several} {honest}"
    );
}
