//! Means over time of values that change.

use multipath::time::Time;

/// The mean over time of a value that holds until the next one is seen. Integer sums, so that it does not depend on how
/// the time is cut up.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeMean {
    begun: Time,
    since: Time,
    value: u64,
    sum: u128,
    max: u64,
}

impl TimeMean {
    /// Begins at a moment, with a value of zero until one is seen.
    pub fn new(begin: Time) -> Self {
        Self { begun: begin, since: begin, ..Self::default() }
    }

    /// The value from now on.
    #[inline]
    pub fn set(&mut self, now: Time, value: u64) {
        self.sum += u128::from(self.value) * u128::from(now.since(self.since).as_nanos());
        self.since = now;
        self.value = value;
        self.max = self.max.max(value);
    }

    /// Forgets what was before now; the value stays.
    pub fn restart(&mut self, now: Time) {
        *self = Self { begun: now, since: now, value: self.value, sum: 0, max: self.value };
    }

    /// The mean from the beginning until now.
    pub fn mean(&self, now: Time) -> f64 {
        let span = now.since(self.begun).as_nanos();
        if span == 0 {
            return self.value as f64;
        }
        let rest = u128::from(self.value) * u128::from(now.since(self.since).as_nanos());
        (self.sum + rest) as f64 / span as f64
    }

    /// The largest value seen.
    pub const fn max(&self) -> u64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_by_hand() {
        let at = Time::from_nanos;
        let mut mean = TimeMean::new(at(100));
        mean.set(at(100), 10);
        mean.set(at(110), 40);
        assert!((mean.mean(at(120)) - 25.0).abs() < 1e-12);
        mean.set(at(120), 4);
        mean.restart(at(120));
        mean.set(at(130), 6);
        assert!((mean.mean(at(140)) - 5.0).abs() < 1e-12);
        assert_eq!(mean.max(), 6);
    }
}
