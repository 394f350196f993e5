//! Moments and lengths of time of workloads.

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};

/// An answer of a pattern.
pub(super) enum Next {
    /// A message, and when it was made (`None` for when it is written).
    Message { len: u64, born: Option<Time> },
    /// Nothing before that moment.
    At(Time),
    /// Nothing any more.
    End,
}

/// A length of time, constant or exponentially distributed.
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

    /// It is no time at all, whatever the distribution.
    pub(super) fn is_zero(&self) -> bool {
        self.mean == Duration::ZERO
    }

    /// At least a nanosecond, so that time goes on.
    pub(super) fn draw(&mut self) -> Duration {
        let drawn = if self.exponential {
            Duration::from_secs_f64(self.rng.exponential(self.mean.as_secs_f64()))
        } else {
            self.mean
        };
        drawn.max(Duration::from_nanos(1))
    }
}
