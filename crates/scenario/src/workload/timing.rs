//! Times and durations of workloads.

use crate::model::Distribution;
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};

/// The next message of a pattern, or its time.
pub(super) enum Next {
    /// A message and its time of creation (`None` for the time of writing).
    Message { len: u64, born: Option<Time> },
    /// No message before that time.
    At(Time),
    /// The pattern has ended.
    End,
}

/// A duration, constant or random.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    mean: Duration,
    distribution: Distribution,
    rng: Rng,
}

impl Interval {
    pub(super) const fn new(mean: Duration, distribution: Distribution, rng: Rng) -> Self {
        Self { mean, distribution, rng }
    }

    /// True if the interval is always zero.
    pub(super) fn is_zero(&self) -> bool {
        self.mean == Duration::ZERO
    }

    /// Draws an interval: at least a nanosecond, so that time advances.
    pub(super) fn draw(&mut self) -> Duration {
        let mean_s = self.mean.as_secs_f64();
        let drawn = match self.distribution {
            Distribution::Constant => self.mean,
            Distribution::Exponential => Duration::from_secs_f64(self.rng.exponential(mean_s)),
            // The inverse of the distribution function.
            Distribution::Pareto { shape } => {
                let min_s = mean_s * (shape - 1.0) / shape;
                Duration::from_secs_f64(min_s * libm::pow(1.0 - self.rng.unit(), -1.0 / shape))
            }
        };
        drawn.max(Duration::from_nanos(1))
    }
}
