//! Independent loss.

use multipath::rng::Rng;

/// Name and description.
pub(super) const ENTRY: (&str, &str) =
    ("bernoulli", "each packet is lost independently with probability `rate`");

/// Each packet is lost with the same probability.
#[derive(Clone, Debug)]
pub struct Bernoulli {
    rate: f64,
    rng: Rng,
}

impl Bernoulli {
    /// Loses packets with probability `rate`.
    pub fn new(rate: f64, rng: Rng) -> Self {
        Self { rate, rng }
    }

    /// Whether the next packet is lost.
    #[inline]
    pub fn loses(&mut self) -> bool {
        self.rng.chance(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loses_its_share_independently() {
        let mut model = Bernoulli::new(0.1, Rng::new(1));
        let n = 200_000;
        let draws: Vec<bool> = (0..n).map(|_| model.loses()).collect();
        let lost = draws.iter().filter(|&&l| l).count() as f64;
        // The standard deviation of the mean is sqrt(0.1 · 0.9 / n) = 0.00067.
        assert!((lost / f64::from(n) - 0.1).abs() < 0.003, "{lost}");
        let pairs = draws.windows(2).filter(|w| w[0] && w[1]).count() as f64;
        assert!((pairs / lost - 0.1).abs() < 0.012, "loss after a loss: {}", pairs / lost);
    }

    #[test]
    fn extremes() {
        let mut never = Bernoulli::new(0.0, Rng::new(1));
        let mut always = Bernoulli::new(1.0, Rng::new(1));
        assert!((0..1000).all(|_| !never.loses() && always.loses()));
    }
}
