//! The Gilbert–Elliott model: a good and a bad state, with a transition before every packet.

use super::{Departure, LossModel};
use crate::keys::{Default, InvalidValues, Key, Keyed, Kind, PROBABILITY, Value, Values};
use anabranch_base::rng::Rng;

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "gilbert-elliott",
    summary: "a good and a bad state (`to_bad`, `to_good`) with their own loss (`loss_good`, `loss_bad`)",
    source: "Gilbert 1960, Elliott 1963",
    keys: &[
        Key {
            name: "to_bad",
            takes: PROBABILITY,
            default: Default::Required("0.01"),
            doc: "Probability of going from good to bad, per packet.",
        },
        Key {
            name: "to_good",
            takes: PROBABILITY,
            default: Default::Required("0.3"),
            doc: "Probability of going from bad to good, per packet.",
        },
        Key {
            name: "loss_good",
            takes: PROBABILITY,
            default: Default::Is("0"),
            doc: "Probability of loss in the good state.",
        },
        Key {
            name: "loss_bad",
            takes: PROBABILITY,
            default: Default::Is("1"),
            doc: "Probability of loss in the bad state.",
        },
    ],
};

/// Settings of loss in bursts; the state may change before every packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability of going from good to bad.
    pub to_bad: f64,
    /// Probability of going from bad to good.
    pub to_good: f64,
    /// Loss probability in the good state.
    pub loss_good: f64,
    /// Loss probability in the bad state.
    pub loss_bad: f64,
}

impl Keyed for GilbertElliott {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        let number = |key| values.number(key);
        Ok(Self {
            to_bad: number("to_bad"),
            to_good: number("to_good"),
            loss_good: number("loss_good"),
            loss_bad: number("loss_bad"),
        })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        let Self { to_bad, to_good, loss_good, loss_bad } = *self;
        let all =
            [("to_bad", to_bad), ("to_good", to_good), ("loss_good", loss_good), ("loss_bad", loss_bad)];
        all.map(|(key, number)| (key, Value::Number(number))).into()
    }
}

/// Two states, each with its own loss probability.
#[derive(Clone, Debug)]
pub struct State {
    settings: GilbertElliott,
    bad: bool,
    rng: Rng,
}

impl State {
    /// Starts in the good state.
    pub fn new(settings: GilbertElliott, rng: Rng) -> Self {
        Self { settings, bad: false, rng }
    }
}

impl LossModel for State {
    fn is_next_lost(&mut self, _: &Departure) -> bool {
        let GilbertElliott { to_bad, to_good, loss_good, loss_bad } = self.settings;
        if self.rng.chance(if self.bad { to_good } else { to_bad }) {
            self.bad = !self.bad;
        }
        self.rng.chance(if self.bad { loss_bad } else { loss_good })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::testing::DATA;

    #[test]
    fn loss_and_burst_length_are_stationary() {
        // Stationary share of the bad state: 0.01 / (0.01 + 0.25) = 1/26; mean sojourn in it: 4 packets.
        let mut model = State::new(
            GilbertElliott { to_bad: 0.01, to_good: 0.25, loss_good: 0.0, loss_bad: 1.0 },
            Rng::new(3),
        );
        let n = 500_000;
        let draws: Vec<bool> = (0..n).map(|_| model.is_next_lost(&DATA)).collect();
        let lost = draws.iter().filter(|&&l| l).count() as f64;
        assert!((lost / f64::from(n) - 1.0 / 26.0).abs() < 0.003, "{}", lost / f64::from(n));
        let bursts = draws.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        assert!((lost / bursts - 4.0).abs() < 0.15, "{}", lost / bursts);
    }

    #[test]
    fn states_alternate_with_certain_transitions() {
        // Leaving is certain in both states: bad, good, bad, good, …
        let mut model = State::new(
            GilbertElliott { to_bad: 1.0, to_good: 1.0, loss_good: 0.0, loss_bad: 1.0 },
            Rng::new(1),
        );
        assert_eq!([(); 4].map(|()| model.is_next_lost(&DATA)), [true, false, true, false]);
    }
}
