//! The body of the fuzz target for a host on many random programs, on any toolchain.

mod hosts;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_host_survives_random_programs(program in proptest::collection::vec(any::<u8>(), 0..600)) {
        hosts::program::host(&program);
    }
}

#[test]
fn programs_get_somewhere() {
    let mut rng = anabranch_base::rng::Rng::new(3);
    let program: Vec<u8> = (0..600).map(|_| rng.below(256) as u8).collect();
    assert!(hosts::program::host(&program) > 500);
}
