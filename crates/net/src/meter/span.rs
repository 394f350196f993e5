//! The time of a run.

use crate::clock::Clock;
use anabranch_base::time::{Duration, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum duration of a thread's sleep, so that it notices the end of the run.
pub const MAX_SLEEP: Duration = Duration::from_millis(50);

/// The duration of a run, shared by all its threads.
#[derive(Debug)]
pub struct Span {
    clock: Clock,
    /// Time at which measuring begins.
    pub warmup: Time,
    /// Time at which the run ends.
    pub until: Time,
    stop: AtomicBool,
    looks: Mutex<SampleCounts>,
    news: Condvar,
}

/// Numbers of requested and of finished samples of the kernel's connections.
#[derive(Debug, Default)]
struct SampleCounts {
    wanted: u64,
    done: u64,
}

impl Span {
    /// A run timed by this clock.
    pub fn new(clock: Clock, warmup: Time, until: Time) -> Self {
        let (looks, news) = (Mutex::default(), Condvar::new());
        Self { clock, warmup, until, stop: AtomicBool::new(false), looks, news }
    }

    /// Ends the run prematurely.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// True if the run has ended, or was stopped.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.now() >= self.until
    }

    fn lock_counts(&self) -> MutexGuard<'_, SampleCounts> {
        // The lock may be poisoned: the thread that panicked ends the run anyway.
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the kernel's connections have been sampled, or for [`MAX_SLEEP`]: the kernel discards
    /// the state of a connection that both ends have closed.
    pub fn wait_for_sample(&self) {
        let mut looks = self.lock_counts();
        looks.wanted += 1;
        let own = looks.wanted;
        self.news.notify_all();
        let longest = std::time::Duration::from_nanos(MAX_SLEEP.as_nanos());
        let waited =
            self.news.wait_timeout_while(looks, longest, |looks| looks.done < own && !self.is_over());
        drop(waited);
    }

    /// The number of requested samples; the sampler calls
    /// [`finish_samples`](Self::finish_samples) afterwards.
    pub fn requested_samples(&self) -> u64 {
        self.lock_counts().wanted
    }

    /// Reports that the first `wanted` requested samples have been taken.
    pub fn finish_samples(&self, wanted: u64) {
        self.lock_counts().done = wanted;
        self.news.notify_all();
    }

    /// Sleeps until a time, the end of the run, or a request for a sample.
    pub fn sleep_until_sample(&self, moment: Time) {
        let mut looks = self.lock_counts();
        while !self.is_over() && looks.wanted == looks.done {
            let left = moment.min(self.until).since(self.now());
            if left == Duration::ZERO {
                return;
            }
            let left = std::time::Duration::from_nanos(left.min(MAX_SLEEP).as_nanos());
            (looks, _) = self.news.wait_timeout(looks, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sleeps until a time or the end of the run.
    pub fn sleep_until(&self, moment: Time) {
        while !self.is_over() {
            let left = moment.min(self.until).since(self.now());
            if left == Duration::ZERO {
                return;
            }
            std::thread::sleep(std::time::Duration::from_nanos(left.min(MAX_SLEEP).as_nanos()));
        }
    }
}
