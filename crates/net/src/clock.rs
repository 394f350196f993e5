//! The time of the machine, for cores that have none.

use multipath::time::{Duration, Time};
use rustix::event::Timespec;
use std::time::Instant;

/// The machine's monotonic clock, counted from when this value was made. What is driven by one clock never sees time go
/// backwards.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that shows zero now.
    #[expect(clippy::disallowed_methods, reason = "this is where the cores' time comes from")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        Time::ZERO + Duration::from_nanos(self.start.elapsed().as_nanos() as u64)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// A span of time as the system calls want it.
pub(crate) fn timespec(span: Duration) -> Timespec {
    let nanos = span.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_and_never_goes_back() {
        let clock = Clock::new();
        let before = clock.now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let after = clock.now();
        assert!(after.since(before) >= Duration::from_millis(2));
        assert_eq!(timespec(Duration::from_nanos(3_000_000_007)), Timespec { tv_sec: 3, tv_nsec: 7 });
    }
}
