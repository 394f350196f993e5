//! The machine's time, for cores without a clock.

use anabranch_base::time::{Duration, Time};
use rustix::event::Timespec;
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU64;

/// The highest scheduling priority (`nice`).
const HIGHEST_PRIORITY: i32 = -20;

/// The machine's monotonic clock, relative to a start, usually the creation of this value. Its time never
/// decreases; all processes of a machine read the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero_ns: u64,
}

impl Clock {
    /// A clock that is zero now.
    pub fn new() -> Self {
        Self { zero_ns: monotonic() }
    }

    /// A clock that is zero until the machine's monotonic clock reaches `zero_ns` nanoseconds.
    pub const fn since(zero_ns: u64) -> Self {
        Self { zero_ns }
    }

    /// Reading of the machine's monotonic clock at this clock's zero, nanoseconds.
    pub const fn zero_ns(&self) -> u64 {
        self.zero_ns
    }

    /// The time since zero.
    pub fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.now().as_nanos())
    }

    /// The time now.
    pub fn now(&self) -> Time {
        Time::ZERO + Duration::from_nanos(monotonic().saturating_sub(self.zero_ns))
    }
}

/// The time of the machine's monotonic clock, nanoseconds.
fn monotonic() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec as u64 * 1_000_000_000 + tv_nsec as u64
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// A duration in the type of system calls.
pub(crate) fn timespec(span: Duration) -> Timespec {
    let nanos = span.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

/// Gives the calling thread precise timing: its sleeps end in time instead of up to 50 µs late, and it has precedence
/// over other programs. Without root the kernel refuses; packets are then later, and the results contain their
/// lateness.
pub(crate) fn prefer_this_thread() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), HIGHEST_PRIORITY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_increases_and_never_decreases() {
        let clock = Clock::new();
        let before = clock.now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let after = clock.now();
        assert!(after.since(before) >= Duration::from_millis(2));
        assert_eq!(timespec(Duration::from_nanos(3_000_000_007)), Timespec { tv_sec: 3, tv_nsec: 7 });
    }
}
