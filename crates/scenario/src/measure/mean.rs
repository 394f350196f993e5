//! Means over time of values that change.

use anabranch_base::time::Time;

/// The means over time of values that change together and hold until the next ones are seen, over the life of what has them.
/// Integer sums, so that they do not depend on how the time is cut up.
#[derive(Clone, Copy, Debug)]
pub struct TimeMeans<const N: usize> {
    begun: Time,
    since: Time,
    values: [u64; N],
    /// Value times nanoseconds.
    sums: [u128; N],
    max: [u64; N],
    /// When they had their last values; nothing counts afterwards.
    ended: Option<Time>,
}

impl<const N: usize> TimeMeans<N> {
    /// Begins at a moment, with values of zero until others are seen.
    pub const fn new(begin: Time) -> Self {
        Self { begun: begin, since: begin, values: [0; N], sums: [0; N], max: [0; N], ended: None }
    }

    /// The values from now on.
    #[inline]
    pub fn set(&mut self, now: Time, values: [u64; N]) {
        // What stays as it is adds up when it changes.
        if values == self.values {
            return;
        }
        let span = u128::from(now.since(self.since).as_nanos());
        self.since = now;
        for (at, value) in values.into_iter().enumerate() {
            self.sums[at] += u128::from(self.values[at]) * span;
            self.max[at] = self.max[at].max(value);
        }
        self.values = values;
    }

    /// The values now.
    #[inline]
    pub const fn values(&self) -> [u64; N] {
        self.values
    }

    /// There are no values any more; what comes later does not count.
    pub fn end(&mut self, now: Time) {
        self.ended.get_or_insert(now);
    }

    /// Forgets what was before now; the values stay. What begins later has nothing to forget.
    pub fn restart(&mut self, now: Time) {
        let begun = self.begun.max(now);
        *self = Self { begun, since: begun, sums: [0; N], max: self.values, ..*self };
    }

    /// The mean of the value at a place, from the beginning until now or the end; of no time at all, the value.
    pub fn mean(&self, at: usize, now: Time) -> f64 {
        let until = self.ended.map_or(now, |ended| ended.min(now));
        let span = until.since(self.begun).as_nanos();
        if span == 0 {
            return self.values[at] as f64;
        }
        let rest = u128::from(self.values[at]) * u128::from(until.since(self.since).as_nanos());
        (self.sums[at] + rest) as f64 / span as f64
    }

    /// The largest value at a place.
    pub const fn max(&self, at: usize) -> u64 {
        self.max[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn is(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
    }

    #[test]
    fn means_by_hand() {
        let mut means = TimeMeans::new(at(100));
        means.set(at(100), [10, 1]);
        means.set(at(110), [40, 1]);
        is(means.mean(0, at(120)), 25.0);
        is(means.mean(1, at(120)), 1.0);
        means.set(at(120), [4, 0]);
        means.restart(at(120));
        means.set(at(130), [6, 0]);
        is(means.mean(0, at(140)), 5.0);
        assert_eq!((means.max(0), means.max(1)), (6, 0));
    }

    #[test]
    fn nothing_before_the_beginning_and_after_the_end_counts() {
        let mut means = TimeMeans::new(at(100));
        means.restart(at(50));
        means.set(at(100), [8]);
        means.end(at(120));
        is(means.mean(0, at(1000)), 8.0);
        is(means.mean(0, at(110)), 8.0);
        // A beginning of measurement after the end leaves the last value.
        means.restart(at(500));
        is(means.mean(0, at(1000)), 8.0);
        is(TimeMeans::<1>::new(at(100)).mean(0, at(50)), 0.0);
    }
}
