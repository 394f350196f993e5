//! Means of values over time.

use anabranch_base::time::Time;

/// Means over time of values that change together and hold until the next update. Integer sums, so that the
/// result does not depend on the number of updates.
#[derive(Clone, Copy, Debug)]
pub struct TimeMeans<const N: usize> {
    begun: Time,
    since: Time,
    values: [u64; N],
    /// Value times nanoseconds.
    sums: [u128; N],
    max: [u64; N],
    /// End of the measurement; later time does not count.
    ended: Option<Time>,
}

impl<const N: usize> TimeMeans<N> {
    /// Starts at a time, with values of zero until the first update.
    pub const fn new(begin: Time) -> Self {
        Self { begun: begin, since: begin, values: [0; N], sums: [0; N], max: [0; N], ended: None }
    }

    /// The values from now on.
    #[inline]
    pub fn set(&mut self, now: Time, values: [u64; N]) {
        // Unchanged values are added up at their next change.
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

    /// Ends the averaging: later time does not count.
    pub fn end(&mut self, now: Time) {
        self.ended.get_or_insert(now);
    }

    /// Discards the time before now; the values stay. Has no effect before the start.
    pub fn restart(&mut self, now: Time) {
        let begun = self.begun.max(now);
        *self = Self { begun, since: begun, sums: [0; N], max: self.values, ..*self };
    }

    /// The mean of one value, from the start until now or the end; without any time, the value itself.
    pub fn mean(&self, at: usize, now: Time) -> f64 {
        let until = self.ended.map_or(now, |ended| ended.min(now));
        let span = until.since(self.begun).as_nanos();
        if span == 0 {
            return self.values[at] as f64;
        }
        let rest = u128::from(self.values[at]) * u128::from(until.since(self.since).as_nanos());
        (self.sums[at] + rest) as f64 / span as f64
    }

    /// The maximum of one value over time.
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
    fn means_equal_values_computed_by_hand() {
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
    fn time_before_start_and_after_end_does_not_count() {
        let mut means = TimeMeans::new(at(100));
        means.restart(at(50));
        means.set(at(100), [8]);
        means.end(at(120));
        is(means.mean(0, at(1000)), 8.0);
        is(means.mean(0, at(110)), 8.0);
        // A start of measurement after the end keeps the last value.
        means.restart(at(500));
        is(means.mean(0, at(1000)), 8.0);
        is(TimeMeans::<1>::new(at(100)).mean(0, at(50)), 0.0);
    }
}
