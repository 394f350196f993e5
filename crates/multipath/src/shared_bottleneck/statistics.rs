//! Summary statistics of the delay of one path (RFC 8382 §3.2, with the enhancements of §3.4).

use super::{C_H, C_S, DelaySample, F, M, N, P_L, P_V, RelativeDelay};
use std::collections::VecDeque;

/// Statistics of a path's delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// skew_est (§3.2.2): the number of samples below the mean minus the number above it, divided by the number of
    /// samples; between −1 and 1. If there is a queue most of the time, it is zero or negative.
    pub skewness: f64,
    /// var_est (§3.2.3): mean distance of the samples from the mean of the previous interval, milliseconds.
    pub variability: f64,
    /// freq_est (§3.2.4): number of intervals whose mean crosses the long-term mean significantly, divided by the
    /// number of intervals.
    pub frequency: f64,
    /// pkt_loss (§3.2.5): share of packets that were lost.
    pub loss: f64,
    /// True if the path passes a bottleneck (§3.3.1, step 1).
    pub bottleneck: bool,
}

/// Counts and sums of one base interval.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    /// Number of samples.
    samples: u32,
    sum: f64,
    /// Number of samples that could be compared with a mean.
    compared: u32,
    /// `skew_base_T` of RFC 8382 §3.2.2.
    skew: i32,
    /// `var_base_T` of RFC 8382 §3.2.3, milliseconds.
    deviation: f64,
    /// True if `deviation` was measured while the path passed a bottleneck. Otherwise it is noise (§3.4.2).
    valid: bool,
    /// True if the mean of the interval crosses the long-term mean significantly.
    crosses: bool,
    sent: u64,
    lost: u64,
}

impl Interval {
    /// Returns E_T(OWD), milliseconds.
    fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum / f64::from(self.samples))
    }
}

/// The side of the long-term mean on which the mean of an interval was last significantly distant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

/// The delays of a path, interval by interval.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    current: Interval,
    /// The last N intervals, the newest first.
    past: VecDeque<Interval>,
    /// The first sample. All others are relative to it, which keeps differences small and makes wrapping clocks
    /// harmless.
    origin: Option<RelativeDelay>,
    /// mean_delay (§3.2.1), and the mean of the last interval that had samples, milliseconds.
    means: Option<(f64, f64)>,
    side: Option<Side>,
    /// Numbers of packets sent and lost until the start of the interval.
    counted: (u64, u64),
    /// Numbers of packets sent and lost until the last sample.
    counts: (u64, u64),
    summary: Summary,
}

impl Statistics {
    /// Adds a sample (§3.2.2, §3.2.3).
    pub fn sample(&mut self, sample: &DelaySample) {
        self.counts = (sample.sent, sample.lost);
        let Some(delay) = self.milliseconds(sample.delay) else { return };
        let current = &mut self.current;
        current.samples += 1;
        current.sum += delay;
        if let Some((mean_delay, last_mean)) = self.means {
            current.compared += 1;
            current.skew += i32::from(delay < mean_delay) - i32::from(delay > mean_delay);
            current.deviation += (delay - last_mean).abs();
        }
    }

    /// Converts a delay to milliseconds relative to the first sample; `None` if that was of the other kind, with which
    /// this delay cannot be compared.
    fn milliseconds(&mut self, delay: RelativeDelay) -> Option<f64> {
        match (*self.origin.get_or_insert(delay), delay) {
            (RelativeDelay::OneWay(origin), RelativeDelay::OneWay(ticks)) => {
                Some(f64::from(ticks.wrapping_sub(origin) as i32))
            }
            (RelativeDelay::RoundTrip(origin), RelativeDelay::RoundTrip(time)) => {
                Some((time.as_secs_f64() - origin.as_secs_f64()) * 1e3)
            }
            _ => None,
        }
    }

    /// Ends a base interval.
    pub fn end_interval(&mut self) {
        let mut interval = core::mem::take(&mut self.current);
        interval.sent = self.counts.0.saturating_sub(self.counted.0);
        interval.lost = self.counts.1.saturating_sub(self.counted.1);
        self.counted = self.counts;
        self.past.push_front(interval);
        self.past.truncate(N);

        let (skew, compared) = self.weighted(|_| true, |interval| f64::from(interval.skew));
        self.summary.skewness = if compared > 0.0 { skew / compared } else { 0.0 };
        self.summary.loss = self.loss();
        let enough = self.recent_intervals().map(|interval| interval.compared).sum::<u32>() >= M as u32;
        self.summary.bottleneck = enough && self.passes_bottleneck();
        self.past[0].valid = self.summary.bottleneck;

        let (deviation, compared) = self.weighted(|interval| interval.valid, |interval| interval.deviation);
        self.summary.variability = if compared > 0.0 { deviation / compared } else { 0.0 };
        self.update_means();
        self.past[0].crosses = self.detect_crossing();
        let crossings = self.past.iter().filter(|interval| interval.crosses).count();
        self.summary.frequency = crossings as f64 / N as f64;
    }

    /// Returns the statistics of the path's delay at the end of the last interval.
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Returns the last M intervals, the newest first.
    fn recent_intervals(&self) -> impl Iterator<Item = &Interval> {
        self.past.iter().take(M)
    }

    /// Sums a value over those of the last M intervals for which `counts` is true; also returns the number of compared
    /// samples in them. The newest F intervals have the weight M − F + 1, older ones M − F down to 1 (§3.4.1).
    fn weighted(&self, counts: impl Fn(&Interval) -> bool, value: impl Fn(&Interval) -> f64) -> (f64, f64) {
        let (mut total, mut compared) = (0.0, 0.0);
        for (at, interval) in self.recent_intervals().enumerate().filter(|(_, interval)| counts(interval)) {
            let weight = (M - at.max(F - 1)) as f64;
            total += weight * value(interval);
            compared += weight * f64::from(interval.compared);
        }
        (total, compared)
    }

    /// Returns the share of lost packets over N intervals (§3.2.5).
    fn loss(&self) -> f64 {
        let sent: f64 = self.past.iter().map(|interval| interval.sent as f64).sum();
        let lost: f64 = self.past.iter().map(|interval| interval.lost as f64).sum();
        if sent > 0.0 { lost / sent } else { 0.0 }
    }

    /// True if the path passes a bottleneck (§3.3.1, step 1). The limit is less strict if it passed one at the last
    /// decision.
    fn passes_bottleneck(&self) -> bool {
        let Summary { skewness, loss, bottleneck, .. } = self.summary;
        skewness < C_S || (skewness < C_H && bottleneck) || loss > P_L
    }

    /// Updates the long-term mean and the mean of the last interval with the newest interval (§3.2.1).
    fn update_means(&mut self) {
        let (mut sum, mut count) = (0.0, 0.0);
        for mean in self.recent_intervals().filter_map(Interval::mean) {
            sum += mean;
            count += 1.0;
        }
        self.means = match (self.past[0].mean(), self.means) {
            (Some(last), _) => Some((sum / count, last)),
            (None, Some((_, last))) if count > 0.0 => Some((sum / count, last)),
            (None, _) => None,
        };
    }

    /// True if the mean of the newest interval lies significantly on one side of the long-term mean, and the last mean
    /// that lay significantly off lies on the other side (§3.2.4). Only a path that passes a bottleneck has crossings
    /// (§3.4.2).
    fn detect_crossing(&mut self) -> bool {
        let (Some(mean), Some((mean_delay, _))) = (self.past[0].mean(), self.means) else { return false };
        if !self.summary.bottleneck {
            return false;
        }
        let margin = P_V * self.summary.variability;
        let side = if mean > mean_delay + margin {
            Side::Above
        } else if mean < mean_delay - margin {
            Side::Below
        } else {
            return false;
        };
        self.side.replace(side).is_some_and(|before| before != side)
    }
}
