//! Runs the fuzz target for a host with random programs, without the fuzzer's toolchain.

mod hosts;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn host_survives_random_programs(program in proptest::collection::vec(any::<u8>(), 0..600)) {
        hosts::program::host(&program);
    }
}

#[test]
fn random_programs_send_forged_packets() {
    let mut rng = anabranch_base::rng::Rng::new(3);
    let program: Vec<u8> = (0..600).map(|_| rng.below(256) as u8).collect();
    assert!(hosts::program::host(&program) > 500);
}
