//! Times and durations of workloads.

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

/// A duration, constant or exponentially distributed.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    mean: Duration,
    exponential: bool,
    rng: Rng,
}

impl Interval {
    pub(super) const fn new(mean: Duration, exponential: bool, rng: Rng) -> Self {
        Self { mean, exponential, rng }
    }

    /// True if the interval is always zero.
    pub(super) fn is_zero(&self) -> bool {
        self.mean == Duration::ZERO
    }

    /// Draws an interval: at least a nanosecond, so that time advances.
    pub(super) fn draw(&mut self) -> Duration {
        let drawn = if self.exponential {
            Duration::from_secs_f64(self.rng.exponential(self.mean.as_secs_f64()))
        } else {
            self.mean
        };
        drawn.max(Duration::from_nanos(1))
    }
}
