//! Independent loss with a probability that follows a recording.

use super::{Departure, LossModel};
use crate::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values};
use crate::series::Series;
use anabranch_base::rng::Rng;

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "trace",
    summary: "each packet is lost independently with a probability that follows the recording in `file`",
    source: "",
    keys: &[Key {
        name: "file",
        takes: Takes::Probabilities { column: "loss" },
        default: Default::Required("\"loss.csv\""),
        doc: "A CSV file with the columns `time_s,loss`, its path relative to the scenario. A probability holds \
              until the time of the next row. The time of the last row is the period with which the recording repeats.",
    }],
};

/// Settings of loss that follows a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Probabilities of loss over time.
    pub series: Series,
}

impl Keyed for Trace {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self { series: values.series("file") })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![("file", Value::Series(self.series.clone()))]
    }
}

/// State of loss that follows a recording.
#[derive(Clone, Debug)]
pub struct State {
    series: Series,
    rng: Rng,
}

impl State {
    /// Creates the model from its settings.
    pub fn new(settings: Trace, rng: Rng) -> Self {
        Self { series: settings.series, rng }
    }
}

impl LossModel for State {
    fn is_next_lost(&mut self, packet: &Departure) -> bool {
        self.rng.chance(self.series.step_at(packet.at))
    }

    fn is_lossless(&self) -> bool {
        self.series.steps().all(|probability| probability == 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::testing::DATA;
    use anabranch_base::time::{Duration, Time};

    fn model(probabilities: &[f64]) -> State {
        let seconds = (0..).map(Duration::from_secs);
        let points = seconds.zip(probabilities.iter().copied()).collect();
        State::new(Trace { series: Series::new("loss.csv", points) }, Rng::new(1))
    }

    #[test]
    fn probability_follows_the_recording() {
        // Two seconds without loss and one in which all packets are lost, repeated.
        let mut model = model(&[0.0, 0.0, 1.0, 0.0]);
        let lost = |millis: u64| {
            let at = Time::ZERO + Duration::from_millis(millis);
            model.is_next_lost(&Departure { at, ..DATA })
        };
        let times = [0, 1_999, 2_000, 2_999, 3_000, 5_000, 5_999, 6_000];
        assert_eq!(times.map(lost), [false, false, true, true, false, true, true, false]);
    }

    #[test]
    fn recording_of_zeros_is_lossless() {
        assert!(model(&[0.0, 0.0, 0.7]).is_lossless(), "the last row is the period only");
        assert!(!model(&[0.0, 0.1, 0.0]).is_lossless());
    }
}
