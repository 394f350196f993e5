//! A limit on the rate of events: a token bucket.

use crate::time::{Duration, Time};

/// A token bucket.
#[derive(Clone, Debug)]
pub struct RateLimit {
    interval: Duration,
    burst: Duration,
    /// Time at which the bucket is full again.
    full_at: Time,
}

impl RateLimit {
    /// Allows `count` events a second and bursts of `count`.
    pub fn per_second(count: u32) -> Self {
        Self::with_burst(count, count)
    }

    /// Allows `count` events a second and bursts of `burst`.
    pub fn with_burst(count: u32, burst: u32) -> Self {
        let interval = 1_000_000_000 / u64::from(count.max(1));
        let nanos = Duration::from_nanos;
        Self { interval: nanos(interval), burst: nanos(interval * u64::from(burst)), full_at: Time::ZERO }
    }

    /// Takes a token; `false` if the bucket is empty.
    pub fn allows(&mut self, now: Time) -> bool {
        let next = self.full_at.max(now) + self.interval;
        let allowed = next.since(now) <= self.burst;
        if allowed {
            self.full_at = next;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    anabranch_proof::theorem! {
        /// For every state of a bucket, an event is allowed exactly if a token is left, and only then takes one.
        fn tokens_are_taken_only_if_left(interval: u32, burst: u64, full_at: u64, now: u64) {
            let (now, before) = (Time::from_nanos(now), Time::from_nanos(full_at));
            let interval = Duration::from_nanos(interval.into());
            let mut limit = RateLimit { interval, burst: Duration::from_nanos(burst), full_at: before };
            let allowed = limit.allows(now);
            let next = before.max(now) + interval;
            assert!(allowed == (next.since(now) <= limit.burst));
            assert!(limit.full_at == if allowed { next } else { before });
        }
    }

    #[test]
    fn bucket_allows_a_burst_then_its_rate() {
        let mut limit = RateLimit::per_second(10);
        assert_eq!((0..100).filter(|_| limit.allows(Time::ZERO)).count(), 10);
        let later = Time::ZERO + Duration::from_millis(250);
        assert_eq!((0..100).filter(|_| limit.allows(later)).count(), 2);
        let mut limit = RateLimit::with_burst(1_000, 3);
        assert_eq!((0..100).filter(|_| limit.allows(later)).count(), 3);
    }
}
