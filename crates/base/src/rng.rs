//! Random numbers: one seed, many independent streams. Every component forks a stream by its name, so that adding a
//! component does not change the random numbers of the others.

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A deterministic stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    stream: Xoshiro256PlusPlus,
}

impl Rng {
    /// The root stream of a run.
    pub fn new(seed: u64) -> Self {
        Self { seed, stream: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// The stream of the component `name`. It depends only on this stream's seed and the name, not on earlier
    /// draws.
    #[must_use]
    pub fn fork(&self, name: &str) -> Self {
        // FNV-1a spreads the name over 64 bits; seed_from_u64 (SplitMix64) mixes the bits further.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self::new(hash)
    }

    /// A uniform 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.stream.next_u64()
    }

    /// A uniform 32-bit number.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A uniform number in [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A uniform number in `0..bound`; `bound` must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no element to draw");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A uniform number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).saturating_add(1).max(1))
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }

    /// Exponentially distributed with the given mean. `libm` computes the logarithm in software, so that
    /// every machine draws the same number.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fork_depends_on_seed_and_name_only() {
        let mut used = Rng::new(7);
        used.next_u64();
        assert_eq!(used.fork("link.beta").next_u64(), Rng::new(7).fork("link.beta").next_u64());
        assert_ne!(Rng::new(7).fork("a").next_u64(), Rng::new(7).fork("b").next_u64());
        assert_ne!(Rng::new(7).fork("a").next_u64(), Rng::new(8).fork("a").next_u64());
    }

    #[test]
    fn draws_have_their_mean_and_range() {
        let mut rng = Rng::new(1);
        let n = 100_000;
        let mean = (0..n).map(|_| rng.exponential(2.0)).sum::<f64>() / f64::from(n);
        assert!((mean - 2.0).abs() < 0.03, "{mean}");
        assert!((0..1000).all(|_| (5..=9).contains(&rng.between(5, 9))));
        assert!(!rng.chance(0.0) && rng.chance(1.0));
    }
}
