//! The retransmission timer's estimator: RFC 6298 §2 and RFC 9260 §6.3.1 (the same arithmetic), with the
//! gains of RFC 7323 appendix G and a lower bound of the variation term.
//!
//! RFC 6298's gains assume one sample per round trip. With one sample per acknowledgement, the samples of a
//! round lose their weight within a few packets, and the variation shrinks until the timer is hardly longer than the
//! present round-trip time. Therefore, appendix G divides the gains by the expected number of samples per
//! round. A long path with a steady round-trip time has the same problem: the lower bound of RFC 6298 §2.4
//! applies to the sum and has no effect once the round-trip time exceeds it. Therefore, the bound applies
//! only to the variation term here, as in Linux (`tcp_rto_min` in `tcp_rtt_estimator`).
//!
//! Schedulers and congestion controls need the present state of a path. They get an average with RFC 6298's
//! gain per sample, as Linux keeps it for them.

use anabranch_base::time::Duration;

/// The bounds of a retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoBounds {
    /// Timeout before the first sample (RFC 6298 §2.1: 1 s; RFC 9260 §16: 1 s).
    pub initial: Duration,
    /// Minimum of the variation term, and so of the timer. RFC 6298 §2.4: 1 s; Linux: 200 ms; RFC 9260 §16: 1
    /// s.
    pub min: Duration,
    /// Maximum of the timer; RFC 6298 §2.5 and RFC 9260 §16: 60 s.
    pub max: Duration,
}

/// Smoothed round-trip time, its variation, and the resulting timer.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    bounds: RtoBounds,
    /// Average over the last few samples, for decisions.
    smoothed: Option<Duration>,
    /// SRTT and RTTVAR of the timer: averages over the last few rounds.
    timer: (Duration, Duration),
    min: Duration,
    smoothed_min: Option<Duration>,
    latest: Option<Duration>,
    backoff: u32,
}

/// `old` moved towards `new` by the fraction `gain`.
fn move_towards(old: Duration, new: u64, gain: u64) -> Duration {
    let old = old.as_nanos();
    let step = old.abs_diff(new) / gain;
    Duration::from_nanos(if new < old { old - step } else { old + step })
}

impl RttEstimator {
    /// An estimator without a sample.
    pub fn new(bounds: RtoBounds) -> Self {
        Self {
            bounds,
            smoothed: None,
            timer: (Duration::ZERO, Duration::ZERO),
            min: Duration::MAX,
            smoothed_min: None,
            latest: None,
            backoff: 0,
        }
    }

    /// Adds the only sample of its round (RFC 6298 §2.2 and 2.3, α = 1/8, β = 1/4) and ends a back-off.
    pub fn sample(&mut self, rtt: Duration) {
        self.sample_of(rtt, 1);
    }

    /// Adds one of about `expected` samples of this round (RFC 7323 appendix G) and ends a back-off.
    pub fn sample_of(&mut self, rtt: Duration, expected: u64) {
        self.backoff = 0;
        self.latest = Some(rtt);
        self.min = self.min.min(rtt);
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(rtt);
            self.smoothed_min = Some(rtt);
            self.timer = (rtt, rtt.div(2));
            return;
        };
        let (old, sample, expected) = (smoothed.as_nanos(), rtt.as_nanos(), expected.max(1));
        let smoothed = Duration::from_nanos(old - old / 8 + sample / 8);
        self.smoothed = Some(smoothed);
        self.smoothed_min = self.smoothed_min.map(|min| min.min(smoothed));
        let (mean, variation) = self.timer;
        let deviation = mean.as_nanos().abs_diff(sample);
        self.timer =
            (move_towards(mean, sample, 8 * expected), move_towards(variation, deviation, 4 * expected));
    }

    /// Handles a handshake without a sample, since its first segment was lost: the timer starts with
    /// `initial`, if that is longer than the default (RFC 6298 §5.7).
    pub fn raise_initial(&mut self, initial: Duration) {
        self.bounds.initial = self.bounds.initial.max(initial).min(self.bounds.max);
    }

    /// Doubles the timer after it has expired (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(32);
    }

    /// Ends the back-off, after new data was acknowledged.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// Number of doublings of the timer since the last acknowledgement.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The retransmission timeout, with back-off and bounds applied.
    pub fn rto(&self) -> Duration {
        let base = if self.smoothed.is_some() {
            let (mean, variation) = self.timer;
            mean + variation.saturating_mul(4).max(self.bounds.min)
        } else {
            self.bounds.initial
        };
        base.saturating_mul(1 << self.backoff).min(self.bounds.max)
    }

    /// Number of whole retransmission timeouts in an idle time; `None` if it was shorter than one.
    pub fn timeouts_in(&self, idle: Duration) -> Option<u32> {
        let rto = self.rto();
        (idle > rto).then(|| u32::try_from(idle.as_nanos() / rto.as_nanos().max(1)).unwrap_or(u32::MAX))
    }

    /// Smoothed round-trip time over the last few samples, if there has been one.
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Smallest smoothed round-trip time that there has been.
    pub fn min_srtt(&self) -> Option<Duration> {
        self.smoothed_min
    }

    /// Mean deviation of the round-trip time over the last few rounds.
    pub fn rttvar(&self) -> Duration {
        self.timer.1
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
    fn estimator_follows_rfc_6298() {
        let mut e = estimator();
        assert_eq!(e.rto(), Duration::from_secs(1));
        e.sample(Duration::from_millis(100));
        assert_eq!(e.rto(), Duration::from_millis(300)); // 100 + 4 * 50
        e.sample(Duration::from_millis(180));
        assert_eq!(e.srtt(), Some(Duration::from_millis(110))); // 7/8 * 100 + 1/8 * 180
        assert_eq!(e.rttvar(), Duration::from_micros(57_500)); // 3/4 * 50 + 1/4 * 80
        assert_eq!(e.rto(), Duration::from_millis(340));
        assert_eq!(e.min_srtt(), Some(Duration::from_millis(100)));
    }

    #[test]
    fn idle_time_counts_whole_timeouts() {
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
    fn back_off_doubles_and_a_sample_ends_it() {
        let mut e = estimator();
        e.sample(Duration::from_millis(10));
        assert_eq!(e.rto(), Duration::from_millis(210));
        e.back_off();
        e.back_off();
        assert_eq!(e.rto(), Duration::from_millis(840));
        for _ in 0..40 {
            e.back_off();
        }
        assert_eq!(e.rto(), Duration::from_secs(60));
        e.sample(Duration::from_millis(10));
        assert_eq!(e.rto(), Duration::from_millis(210));
    }

    #[test]
    fn steady_path_keeps_minimum_above_round_trip() {
        for expected in [1, 100] {
            let mut e = estimator();
            for _ in 0..20_000 {
                e.sample_of(Duration::from_millis(640), expected);
            }
            assert_eq!(e.srtt(), Some(Duration::from_millis(640)));
            // 4 · RTTVAR is almost zero; an additional 20 ms of delay must not look like a loss.
            assert_eq!(e.rto(), Duration::from_millis(840));
        }
    }

    #[test]
    fn memory_is_independent_of_samples_per_round() {
        // One round of 100 ms after many of 500 ms, and then ten rounds of 100 ms again.
        let rto = |samples: u64| {
            let mut e = estimator();
            let mut round = |ms| (0..samples).for_each(|_| e.sample_of(Duration::from_millis(ms), samples));
            (0..50).for_each(|_| round(100));
            round(500);
            (0..3).for_each(|_| round(100));
            e.rto().as_secs_f64()
        };
        let (one, many) = (rto(1), rto(200));
        assert!(one > 0.35 && (many / one - 1.0).abs() < 0.1, "{one} s with one, {many} s with many");
    }

    #[test]
    fn smoothed_rtt_follows_recent_samples() {
        let mut e = estimator();
        (0..100).for_each(|_| e.sample_of(Duration::from_millis(100), 100));
        (0..40).for_each(|_| e.sample_of(Duration::from_millis(200), 100));
        let srtt = e.srtt().expect("there were samples").as_secs_f64();
        assert!((0.199..0.2).contains(&srtt), "{srtt} s");
    }

    #[test]
    fn unmeasured_handshake_raises_the_initial_timeout() {
        let mut e = estimator();
        e.raise_initial(Duration::from_secs(3));
        assert_eq!(e.rto(), Duration::from_secs(3));
        e.sample(Duration::from_millis(100));
        assert_eq!(e.rto(), Duration::from_millis(300));
    }
}
