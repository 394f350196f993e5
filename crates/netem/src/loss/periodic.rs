//! Loss at equal distances: the deterministic loss in the closed forms of congestion control (Mathis, Semke,
//! Mahdavi, Ott 1997; RFC 9438 §5.1), for comparison with a window that reacts to each loss.

use super::{Departure, LossModel};
use crate::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values};
use anabranch_base::rng::Rng;

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "periodic",
    summary: "one in `every` packets is lost, the deterministic loss of response functions",
    source: "RFC 9438 §5.1",
    keys: &[Key {
        name: "every",
        takes: Takes::Integer { min: 1, max: 1_000_000_000 },
        default: Default::Required("1000"),
        doc: "Number of packets from one loss to the next, the lost one included.",
    }],
};

/// Settings of loss at equal distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Periodic {
    /// Packets from one loss to the next, at least one.
    pub every: u64,
}

impl Keyed for Periodic {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self { every: values.integer("every") })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![("every", Value::Integer(self.every))]
    }
}

/// Counts the packets.
#[derive(Clone, Debug)]
pub struct State {
    every: u64,
    /// Number of packets up to and including the next lost one.
    left: u64,
}

impl State {
    /// A model with these settings; it has no randomness.
    pub fn new(settings: Periodic, _rng: Rng) -> Self {
        Self { every: settings.every, left: settings.every }
    }
}

impl LossModel for State {
    #[inline]
    fn is_next_lost(&mut self, _: &Departure) -> bool {
        self.left = self.left.saturating_sub(1);
        let lost = self.left == 0;
        if lost {
            self.left = self.every;
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::testing::DATA;

    #[test]
    fn every_third_packet_is_lost() {
        let mut model = State::new(Periodic { every: 3 }, Rng::new(1));
        let lost: Vec<bool> = (0..7).map(|_| model.is_next_lost(&DATA)).collect();
        assert_eq!(lost, [false, false, true, false, false, true, false]);
    }
}
