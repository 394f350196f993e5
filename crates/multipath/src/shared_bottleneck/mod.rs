//! Detects which paths of a connection share a bottleneck from the statistics of their delays (RFC 8382).
//!
//! Each path has summary statistics of its one-way delay over base intervals of 350 ms (§3.2): skewness, variability,
//! frequency of the oscillation of its mean, and losses. A path passes a bottleneck if more of its delays lie above
//! their mean than below, or if it has many losses (§3.3.1, first test). Paths with similar statistics pass the same
//! bottleneck (further tests). The sender performs all steps (§3.1.1).
//!
//! The statistics use only differences of delays, so clocks need not be synchronised. Cases in which the assumptions of
//! the method do not hold:
//!
//! - *No queue, or none most of the time*: the delay is usually at its minimum, so its skewness is positive. The path
//!   counts as passing no bottleneck.
//! - *Few samples*, because the path is idle or its application has little to send: with less than one sample per
//!   interval on average, the path counts as passing no bottleneck. An interval without a sample is used only for losses.
//! - *Clock drift*: a drift of 100 ppm is 1 ms in ten seconds, the time over which the mean is computed. §4.2 considers
//!   that negligible, so there is no correction.
//! - *Coarse timestamps*: means are `f64`, so that rounding does not bias the skewness (§3.2.2). With a clock of a
//!   millisecond, delays must vary by a hundred milliseconds (§4.1). If they vary less, the variabilities of two
//!   bottlenecks are nearly equal.
//! - *Two bottlenecks with similar statistics* are detected as one bottleneck. Two paths of one bottleneck whose
//!   statistics differ by more than the thresholds are detected as paths of different bottlenecks.
//!   `docs/lab-notes/shared-bottlenecks.md` has the frequencies of both errors.

mod grouping;
mod statistics;
#[cfg(test)]
mod tests;

pub use grouping::group;
pub use statistics::{Statistics, Summary};

use crate::PathId;
use anabranch_base::time::{Duration, Time};

/// T: the base interval (§2.2).
pub const BASE_INTERVAL: Duration = Duration::from_millis(350);
/// N: number of intervals over which oscillations and losses are counted (§2.2).
pub const N: usize = 50;
/// M: number of intervals for means, skewness and variability (§2.2).
pub const M: usize = 30;
/// F: the number of these intervals that have full weight, the newest ones. The weight of older ones falls (§3.4.1).
pub const F: usize = 20;
/// c_s: skewness below which a path passes a bottleneck (§2.2, §3.3.1).
pub const C_S: f64 = 0.1;
/// c_h: skewness below which a path passes a bottleneck if it also passed one at the last decision.
pub const C_H: f64 = 0.3;
/// p_s: largest difference of skewness within a group.
pub const P_S: f64 = 0.15;
/// p_f: largest difference of oscillation within a group.
pub const P_F: f64 = 0.1;
/// p_mad: largest relative difference of variability within a group.
pub const P_MAD: f64 = 0.1;
/// p_d: largest relative difference of losses within a group.
pub const P_D: f64 = 0.1;
/// p_l: share of lost packets above which losses are significant.
pub const P_L: f64 = 0.1;
/// p_v: minimum distance of an interval's mean from the long-term mean to count as a crossing, in multiples of the
/// variability (§3.2.4).
pub const P_V: f64 = 0.7;
/// Number of intervals before a path is grouped for the first time. §3.3.2 recommends 2 M.
pub const JUDGED_AFTER: u32 = 2 * M as u32;

/// The mark of a path that has not been grouped yet. Such a path may share a bottleneck with any other path.
pub const UNKNOWN: u16 = 0;

/// A sample of a path's delay from an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct DelaySample {
    /// Arrival time of the acknowledgement.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// The delay, up to an unknown constant.
    pub delay: RelativeDelay,
    /// Number of data packets that have been sent on the path, including retransmissions.
    pub sent: u64,
    /// Number of retransmissions on the path after an assumed loss; `sent` includes them.
    pub lost: u64,
}

/// A delay with an unknown constant offset, so that only differences are meaningful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelativeDelay {
    /// One-way delay: the peer's clock at the acknowledgement (TSval of RFC 7323) minus the local clock at the
    /// transmission, milliseconds modulo 2³².
    OneWay(u32),
    /// Round-trip time, used without timestamps. It includes queues on the reverse path.
    RoundTrip(Duration),
}

/// Results of the detection for a path, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// The mark of the path's bottleneck. Paths with the same mark share a bottleneck. [`UNKNOWN`] before the first decision.
    pub bottleneck: u16,
    /// Number of decisions about the path, one for each base interval since it was first grouped.
    pub decisions: u64,
    /// Number of these decisions according to which the path shares its bottleneck with another path.
    pub shared: u64,
    /// Number of these decisions according to which the path passes a bottleneck.
    pub bottlenecked: u64,
}

impl Grouping {
    /// Returns the share of decisions according to which the path shared its bottleneck with another path; `None`
    /// before the first decision.
    pub fn shared_share(&self) -> Option<f64> {
        self.share(self.shared)
    }

    /// Returns the share of decisions according to which the path passed a bottleneck; `None` before the first
    /// decision.
    pub fn bottleneck_share(&self) -> Option<f64> {
        self.share(self.bottlenecked)
    }

    fn share(&self, of: u64) -> Option<f64> {
        (self.decisions > 0).then(|| of as f64 / self.decisions as f64)
    }
}

#[derive(Debug, Default)]
struct Watched {
    statistics: Statistics,
    grouping: Grouping,
    /// Number of base intervals since the path was added.
    age: u32,
}

/// Monitors the paths of a connection and groups them at the end of each base interval.
#[derive(Debug, Default)]
pub struct Detector {
    /// Statistics by path.
    paths: Vec<Option<Watched>>,
    /// End of the current base interval; `None` before the first sample.
    end: Option<Time>,
}

impl Detector {
    /// Adds a path.
    pub fn add(&mut self, path: PathId) {
        if self.paths.len() <= path.index() {
            self.paths.resize_with(path.index() + 1, || None);
        }
        self.paths[path.index()] = Some(Watched::default());
    }

    /// Removes a path.
    pub fn remove(&mut self, path: PathId) {
        if let Some(slot) = self.paths.get_mut(path.index()) {
            *slot = None;
        }
    }

    /// Adds a sample; returns true if it ended base intervals, so that groups may have changed.
    pub fn sample(&mut self, sample: &DelaySample) -> bool {
        let ended = self.advance(sample.now);
        if let Some(Some(watched)) = self.paths.get_mut(sample.path.index()) {
            watched.statistics.sample(sample);
        }
        ended
    }

    /// Returns the results for a path.
    pub fn grouping(&self, path: PathId) -> Option<Grouping> {
        Some(self.paths.get(path.index())?.as_ref()?.grouping)
    }

    /// Returns every path with the mark of its bottleneck.
    pub fn marks(&self) -> impl Iterator<Item = (PathId, u16)> {
        let mark = |(at, slot): (usize, &Option<Watched>)| Some((id(at), slot.as_ref()?.grouping.bottleneck));
        self.paths.iter().enumerate().filter_map(mark)
    }

    /// Returns the statistics of a path at the end of the last interval.
    pub fn summary(&self, path: PathId) -> Option<Summary> {
        Some(self.paths.get(path.index())?.as_ref()?.statistics.summary())
    }

    /// Ends the base intervals that have passed; returns true if there were any.
    fn advance(&mut self, now: Time) -> bool {
        let Some(end) = self.end else {
            self.end = Some(now + BASE_INTERVAL);
            return false;
        };
        if now < end {
            return false;
        }
        // After N intervals without a sample, no earlier data is used any more, so further intervals change nothing.
        let over = 1 + now.since(end).as_nanos() / BASE_INTERVAL.as_nanos();
        for _ in 0..over.min(N as u64) {
            self.decide();
        }
        self.end = Some(end + BASE_INTERVAL.saturating_mul(over));
        true
    }

    /// Groups the paths again at the end of an interval (§3.3.1).
    fn decide(&mut self) {
        let mut judged = Vec::new();
        for (at, slot) in self.paths.iter_mut().enumerate() {
            let Some(watched) = slot else { continue };
            watched.statistics.end_interval();
            watched.age = watched.age.saturating_add(1);
            if watched.age >= JUDGED_AFTER {
                let summary = watched.statistics.summary();
                watched.grouping.bottleneck = mark(id(at));
                watched.grouping.decisions += 1;
                watched.grouping.bottlenecked += u64::from(summary.bottleneck);
                judged.push((id(at), summary));
            }
        }
        for together in group(&judged).iter().filter(|together| together.len() > 1) {
            let Some(first) = together.iter().min() else { continue };
            for path in together {
                if let Some(Some(watched)) = self.paths.get_mut(path.index()) {
                    watched.grouping.bottleneck = mark(*first);
                    watched.grouping.shared += 1;
                }
            }
        }
    }
}

fn id(at: usize) -> PathId {
    PathId(at as u8)
}

/// Returns the mark of a group, which its first path determines.
fn mark(first: PathId) -> u16 {
    u16::from(first.0) + 1
}
