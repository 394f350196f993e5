//! The retransmission timer's estimator: RFC 6298 §2, RFC 9260 §6.3.1 (the same arithmetic).

use crate::time::Duration;

/// The bounds of a retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoBounds {
    /// Before the first sample (RFC 6298 §2.1: 1 s; RFC 9260 §16: 1 s).
    pub initial: Duration,
    /// RFC 6298 §2.4: 1 s; Linux: 200 ms; RFC 9260 §16: 1 s.
    pub min: Duration,
    /// RFC 6298 §2.5 and RFC 9260 §16: 60 s.
    pub max: Duration,
}

/// Smoothed round-trip time, its variation, and the timer that follows from them.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    bounds: RtoBounds,
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
    latest: Option<Duration>,
    backoff: u32,
}

impl RttEstimator {
    /// An estimator without a sample.
    pub fn new(bounds: RtoBounds) -> Self {
        Self {
            bounds,
            smoothed: None,
            variation: Duration::ZERO,
            min: Duration::MAX,
            latest: None,
            backoff: 0,
        }
    }

    /// Takes a sample (RFC 6298 §2.2 and 2.3, α = 1/8, β = 1/4) and ends a back-off.
    pub fn sample(&mut self, rtt: Duration) {
        self.backoff = 0;
        self.latest = Some(rtt);
        self.min = self.min.min(rtt);
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt.div(2);
            }
            Some(smoothed) => {
                let (s, r) = (smoothed.as_nanos(), rtt.as_nanos());
                let v = self.variation.as_nanos();
                self.variation = Duration::from_nanos(v - v / 4 + s.abs_diff(r) / 4);
                self.smoothed = Some(Duration::from_nanos(s - s / 8 + r / 8));
            }
        }
    }

    /// The timer ran out: doubles it (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(32);
    }

    /// New data was acknowledged: the timer is no longer doubled.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// How often the timer has been doubled since the last acknowledgement.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The retransmission timeout, with back-off and bounds applied.
    pub fn rto(&self) -> Duration {
        let base = match self.smoothed {
            None => self.bounds.initial,
            Some(s) => (s + self.variation.saturating_mul(4)).max(self.bounds.min),
        };
        base.saturating_mul(1 << self.backoff).min(self.bounds.max)
    }

    /// How many whole retransmission timeouts an idle time lasted, if it was longer than one.
    pub fn timeouts_in(&self, idle: Duration) -> Option<u32> {
        let rto = self.rto();
        (idle > rto).then(|| u32::try_from(idle.as_nanos() / rto.as_nanos().max(1)).unwrap_or(u32::MAX))
    }

    /// Smoothed round-trip time, if there has been a sample.
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Mean deviation of the round-trip time.
    pub fn rttvar(&self) -> Duration {
        self.variation
    }

    /// Smallest sample; [`Duration::MAX`] before the first.
    pub fn min_rtt(&self) -> Duration {
        self.min
    }

    /// The newest sample.
    pub fn latest(&self) -> Option<Duration> {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator() -> RttEstimator {
        RttEstimator::new(RtoBounds {
            initial: Duration::from_secs(1),
            min: Duration::from_millis(200),
            max: Duration::from_secs(60),
        })
    }

    #[test]
    fn follows_rfc_6298_by_hand() {
        let mut e = estimator();
        assert_eq!(e.rto(), Duration::from_secs(1));
        e.sample(Duration::from_millis(100));
        assert_eq!(e.rto(), Duration::from_millis(300)); // 100 + 4 * 50
        e.sample(Duration::from_millis(180));
        assert_eq!(e.srtt(), Some(Duration::from_millis(110))); // 7/8 * 100 + 1/8 * 180
        assert_eq!(e.rttvar(), Duration::from_micros(57_500)); // 3/4 * 50 + 1/4 * 80
        assert_eq!(e.rto(), Duration::from_millis(340));
    }

    #[test]
    fn idle_time_counts_in_whole_timeouts_beyond_the_first() {
        let estimator = estimator();
        let rto = estimator.rto();
        let part = |tenths: u64| Duration::from_nanos(rto.as_nanos() / 10 * tenths);
        assert_eq!([9, 10].map(|tenths| estimator.timeouts_in(part(tenths))), [None; 2]);
        assert_eq!(
            [11, 29, 30].map(|tenths| estimator.timeouts_in(part(tenths))),
            [Some(1), Some(2), Some(3)]
        );
    }

    #[test]
    fn back_off_doubles_up_to_the_bound_and_a_sample_ends_it() {
        let mut e = estimator();
        e.sample(Duration::from_millis(10));
        assert_eq!(e.rto(), Duration::from_millis(200));
        e.back_off();
        e.back_off();
        assert_eq!(e.rto(), Duration::from_millis(800));
        for _ in 0..40 {
            e.back_off();
        }
        assert_eq!(e.rto(), Duration::from_secs(60));
        e.sample(Duration::from_millis(10));
        assert_eq!(e.rto(), Duration::from_millis(200));
    }
}
