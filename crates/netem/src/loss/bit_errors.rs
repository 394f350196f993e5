//! Independent bit errors: a packet is lost if at least one of its bits is wrong.

use super::{Departure, LossModel};
use crate::keys::{Default, InvalidValues, Key, Keyed, Kind, PROBABILITY, Value, Values};
use anabranch_base::rng::Rng;

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "bit-errors",
    summary: "each bit is wrong with probability `rate`, and a packet with a wrong bit is lost",
    source: "",
    keys: &[Key {
        name: "rate",
        takes: PROBABILITY,
        default: Default::Required("1e-6"),
        doc: "Probability b that a bit is wrong. A packet is lost with probability 1 − (1 − b)^(8·length of the IP packet).",
    }],
};

/// Settings of independent bit errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BitErrors {
    /// Probability that a bit is wrong.
    pub rate: f64,
}

impl Keyed for BitErrors {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self { rate: values.number("rate") })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![("rate", Value::Number(self.rate))]
    }
}

/// State of independent bit errors.
#[derive(Clone, Debug)]
pub struct State {
    /// Natural logarithm of the probability that a bit is right.
    log_right: f64,
    rng: Rng,
}

impl State {
    /// Creates the model from its settings.
    pub fn new(settings: BitErrors, rng: Rng) -> Self {
        Self { log_right: libm::log1p(-settings.rate), rng }
    }

    /// Probability that a packet of `len` bytes is lost. `expm1` keeps the digits of very small rates.
    fn loss_probability(&self, len: u32) -> f64 {
        -libm::expm1(f64::from(8 * len) * self.log_right)
    }
}

impl LossModel for State {
    fn is_next_lost(&mut self, packet: &Departure) -> bool {
        let probability = self.loss_probability(packet.len);
        self.rng.chance(probability)
    }

    fn is_lossless(&self) -> bool {
        self.log_right == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::testing::DATA;

    fn model(rate: f64) -> State {
        State::new(BitErrors { rate }, Rng::new(4))
    }

    #[test]
    fn probabilities_equal_values_computed_by_hand() {
        // 1 − 0.5^8 for one byte; about 12,000·10⁻¹² for 1500 bytes at a rate whose power rounds to 1.
        assert!((model(0.5).loss_probability(1) - 0.996_093_75).abs() < 1e-15);
        assert!((model(1e-12).loss_probability(1500) / 1.2e-8 - 1.0).abs() < 1e-7);
        assert!((model(1e-5).loss_probability(1500) - (1.0 - 0.886_919_9)).abs() < 1e-6);
    }

    #[test]
    fn losses_follow_the_length() {
        // The share of lost frames is within three standard errors of the formula, at three lengths.
        let trials = 200_000;
        for len in [40, 576, 1500] {
            let mut model = model(2e-5);
            let p = 1.0 - libm::pow(1.0 - 2e-5, f64::from(8 * len));
            let packet = Departure { len, ..DATA };
            let lost = (0..trials).filter(|_| model.is_next_lost(&packet)).count() as f64;
            let error = libm::sqrt(p * (1.0 - p) / f64::from(trials));
            let share = lost / f64::from(trials);
            assert!((share - p).abs() < 3.0 * error, "{len} bytes: {share} instead of {p} ± {error}");
        }
    }

    #[test]
    fn rates_zero_and_one_are_exact() {
        let (mut never, mut always) = (model(0.0), model(1.0));
        assert!(never.is_lossless() && !always.is_lossless());
        assert!((0..1000).all(|_| !never.is_next_lost(&DATA) && always.is_next_lost(&DATA)));
    }
}
