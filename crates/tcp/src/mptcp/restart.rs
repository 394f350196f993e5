//! Paced restart of a path whose window was not used because a buffer was full.
//!
//! While unacknowledged data fills the receive window or the send buffer, the data in flight of a path drains, and no
//! acknowledgements clock new data. Once the buffer has room again, the path with the shortest round trip could send
//! all of its window at once. Such a burst overflows the queue of the path's link, and the path loses half of its
//! window or more. So the path is paced, at a rate somewhat above one window per round trip, until the window is
//! full, as a TCP connection may restart after idle time (Visweswaraiah and Heidemann 1997).
//!
//! A driver in real time is late by tens of microseconds, in which a fast path could have sent many segments. These follow
//! at once, so that the rate does not depend on the driver's timers.

use anabranch_base::time::{Duration, Time};

/// The pacing rate is 3/2 of the window per round trip. Linux takes 2 in slow start and 1.2 later
/// (`tcp_update_pacing_rate`).
const RATE_NUMERATOR: u64 = 3;
const RATE_DENOMINATOR: u64 = 2;
/// Maximum time of a late driver whose segments follow at once, as a [`Pacer`](anabranch_multipath::pacing::Pacer) permits.
const MAX_LATENESS: Duration = Duration::from_millis(1);

/// State of a paced restart, which lasts until the window is full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restart {
    /// Time of the next segment; `None` if it may be sent now.
    next_at: Option<Time>,
    /// The time of a segment that the driver has permitted too late.
    missed_at: Option<Time>,
}

impl Restart {
    /// Returns true if the next segment has to wait.
    pub fn holds(&self, now: Time) -> bool {
        self.next_at.is_some_and(|at| at > now)
    }

    /// Time of the next segment, if it has to wait.
    pub fn deadline(&self) -> Option<Time> {
        self.next_at
    }

    /// Permits the next segment once its time has come.
    pub fn expire(&mut self, now: Time) {
        if let Some(at) = self.next_at.filter(|&at| at <= now) {
            (self.next_at, self.missed_at) = (None, (at < now).then_some(at));
        }
    }

    /// Records that `len` bytes were sent on a path with this window and round-trip time, and delays the next
    /// segment.
    pub fn sent(&mut self, now: Time, len: u32, (window, round_trip): (u64, Duration)) {
        let share = u128::from(len) * u128::from(RATE_DENOMINATOR) * u128::from(round_trip.as_nanos());
        let gap = share / (u128::from(RATE_NUMERATOR) * u128::from(window.max(1)));
        let due = self.next_at.or(self.missed_at.take());
        let from = due.map_or(now, |at| at.max(now - MAX_LATENESS));
        self.next_at = Some(from + Duration::from_nanos(u64::try_from(gap).unwrap_or(u64::MAX)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn paced_restart_spreads_window_over_a_round_trip() {
        // A window of 100 segments and a round trip of 300 ms: one segment every 2 ms.
        let path = (100_000, Duration::from_millis(300));
        let mut restart = Restart::default();
        assert!(!restart.holds(at(0)));
        restart.sent(at(0), 1000, path);
        assert!(restart.holds(at(1)) && !restart.holds(at(2)));
        restart.sent(at(2), 1000, path);
        assert_eq!(restart.deadline(), Some(at(4)));
    }

    #[test]
    fn idle_time_permits_a_millisecond_of_segments() {
        // A segment every 2 ms, and one of half the size every millisecond.
        let path = (100_000, Duration::from_millis(300));
        let mut restart = Restart::default();
        restart.sent(at(0), 1000, path);
        restart.expire(at(50));
        assert_eq!(restart.deadline(), None);
        restart.sent(at(50), 500, path);
        assert!(!restart.holds(at(50)));
        restart.sent(at(50), 1000, path);
        assert_eq!(restart.deadline(), Some(at(52)));
    }

    #[test]
    fn late_driver_sends_at_the_same_rate() {
        // 1,000 bytes every 2 us; the driver wakes every 60 us, by timers or by arrivals.
        let path = (1_000_000, Duration::from_millis(3));
        for has_timer in [true, false] {
            let mut restart = Restart::default();
            let mut bytes = 0;
            for wake in 0..1_000 {
                let now = Time::ZERO + Duration::from_micros(60 * wake);
                if has_timer {
                    restart.expire(now);
                }
                while !restart.holds(now) {
                    restart.sent(now, 1000, path);
                    bytes += 1000;
                }
            }
            // 999 x 60 us, and the first segment.
            assert!((29_960_000..=30_010_000).contains(&bytes), "{bytes} bytes in 60 ms");
        }
    }

    #[test]
    fn exact_driver_has_no_credit() {
        let path = (100_000, Duration::from_millis(300));
        let mut restart = Restart::default();
        restart.sent(at(0), 1000, path);
        restart.expire(at(2));
        restart.sent(at(7), 1000, path);
        assert_eq!(restart.deadline(), Some(at(9)));
    }
}
