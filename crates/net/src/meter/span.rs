//! The time of a run.

use crate::clock::Clock;
use multipath::time::{Duration, Time};
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a thread sleeps at most, so that it sees the end of the run.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// The time of a run, as all its threads see it.
#[derive(Debug)]
pub struct Span {
    clock: Clock,
    /// When measuring begins.
    pub warmup: Time,
    /// When the run ends.
    pub until: Time,
    stop: AtomicBool,
}

impl Span {
    /// A run by this clock.
    pub const fn new(clock: Clock, warmup: Time, until: Time) -> Self {
        Self { clock, warmup, until, stop: AtomicBool::new(false) }
    }

    /// Ends it before its time.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Whether the run has come to its end, or was stopped.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.now() >= self.until
    }

    /// Sleeps until a moment or the end of the run.
    pub fn sleep_until(&self, moment: Time) {
        while !self.is_over() {
            let left = moment.min(self.until).since(self.now());
            if left == Duration::ZERO {
                return;
            }
            std::thread::sleep(std::time::Duration::from_nanos(left.min(LONGEST_SLEEP).as_nanos()));
        }
    }
}
