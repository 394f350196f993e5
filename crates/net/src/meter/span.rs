//! The time of a run.

use crate::clock::Clock;
use anabranch_base::time::{Duration, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
    looks: Mutex<Looks>,
    news: Condvar,
}

/// Looks at the kernel's connections that somebody waits for.
#[derive(Debug, Default)]
struct Looks {
    wanted: u64,
    done: u64,
}

impl Span {
    /// A run by this clock.
    pub fn new(clock: Clock, warmup: Time, until: Time) -> Self {
        let (looks, news) = (Mutex::default(), Condvar::new());
        Self { clock, warmup, until, stop: AtomicBool::new(false), looks, news }
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

    fn looks(&self) -> MutexGuard<'_, Looks> {
        // Whoever panicked while holding it ends the run anyway.
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until somebody has looked at the kernel's connections, or for [`LONGEST_SLEEP`]: what both ends have closed, the
    /// kernel knows nothing of any more.
    pub fn wait_for_look(&self) {
        let mut looks = self.looks();
        looks.wanted += 1;
        let own = looks.wanted;
        self.news.notify_all();
        let longest = std::time::Duration::from_nanos(LONGEST_SLEEP.as_nanos());
        let waited =
            self.news.wait_timeout_while(looks, longest, |looks| looks.done < own && !self.is_over());
        drop(waited);
    }

    /// How many looks are wanted, for who looks and says so with [`looked`](Self::looked) afterwards.
    pub fn looks_wanted(&self) -> u64 {
        self.looks().wanted
    }

    /// As many looks as this have been done of those that were wanted.
    pub fn looked(&self, wanted: u64) {
        self.looks().done = wanted;
        self.news.notify_all();
    }

    /// Sleeps until a moment, the end of the run or until a look is wanted.
    pub fn sleep_until_look(&self, moment: Time) {
        let mut looks = self.looks();
        while !self.is_over() && looks.wanted == looks.done {
            let left = moment.min(self.until).since(self.now());
            if left == Duration::ZERO {
                return;
            }
            let left = std::time::Duration::from_nanos(left.min(LONGEST_SLEEP).as_nanos());
            (looks, _) = self.news.wait_timeout(looks, left).unwrap_or_else(PoisonError::into_inner);
        }
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
