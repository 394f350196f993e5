//! Measures the duration of a run. Nothing simulated depends on it.

use std::time::Instant;

/// Measures real time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts.
    #[expect(
        clippy::disallowed_methods,
        reason = "the only clock of simulated runs, which measures them and is not part of them"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the start.
    pub(crate) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
