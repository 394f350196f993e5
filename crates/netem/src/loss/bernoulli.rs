//! Independent loss.

use super::{Departure, LossModel};
use crate::keys::{Default, InvalidValues, Key, Keyed, Kind, PROBABILITY, Value, Values};
use anabranch_base::rng::Rng;

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "bernoulli",
    summary: "each packet is lost independently with probability `rate`",
    source: "",
    keys: &[Key {
        name: "rate",
        takes: PROBABILITY,
        default: Default::Required("0.01"),
        doc: "Probability that a packet is lost.",
    }],
};

/// Settings of independent loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bernoulli {
    /// Probability that a packet is lost.
    pub rate: f64,
}

impl Keyed for Bernoulli {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self { rate: values.number("rate") })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![("rate", Value::Number(self.rate))]
    }
}

/// State of independent loss with a constant probability.
#[derive(Clone, Debug)]
pub struct State {
    rate: f64,
    rng: Rng,
}

impl State {
    /// Creates the model from its settings.
    pub fn new(settings: Bernoulli, rng: Rng) -> Self {
        Self { rate: settings.rate, rng }
    }
}

impl LossModel for State {
    #[inline]
    fn is_next_lost(&mut self, _: &Departure) -> bool {
        self.rng.chance(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::testing::DATA;

    #[test]
    fn packets_are_lost_independently_at_the_rate() {
        let mut model = State::new(Bernoulli { rate: 0.1 }, Rng::new(1));
        let n = 200_000;
        let draws: Vec<bool> = (0..n).map(|_| model.is_next_lost(&DATA)).collect();
        let lost = draws.iter().filter(|&&l| l).count() as f64;
        // The standard deviation of the mean is sqrt(0.1 · 0.9 / n) = 0.00067.
        assert!((lost / f64::from(n) - 0.1).abs() < 0.003, "{lost}");
        let pairs = draws.windows(2).filter(|w| w[0] && w[1]).count() as f64;
        assert!((pairs / lost - 0.1).abs() < 0.012, "loss after a loss: {}", pairs / lost);
    }

    #[test]
    fn rates_zero_and_one_are_exact() {
        let mut never = State::new(Bernoulli { rate: 0.0 }, Rng::new(1));
        let mut always = State::new(Bernoulli { rate: 1.0 }, Rng::new(1));
        assert!((0..1000).all(|_| !never.is_next_lost(&DATA) && always.is_next_lost(&DATA)));
    }
}
