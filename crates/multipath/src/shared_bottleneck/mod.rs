//! Detects which paths of a connection share a bottleneck from the statistics of their delays (RFC 8382).
//!
//! Each path has summary statistics of its one-way delay over base intervals of 350 ms (§3.2): skewness,
//! variability, frequency of oscillation of its mean, and losses. A path whose delay lies above its mean more
//! often than not, or that has many losses, passes a bottleneck (§3.3.1, first test); paths with similar
//! statistics pass the same one (further tests). The sender performs all steps (§3.1.1).
//!
//! Only differences of delays are used, so that clocks need not be synchronised. Violated assumptions of the method:
//!
//! - *No queue, or none most of the time*: the delay is at its minimum and its skewness positive. The path
//!   passes no bottleneck.
//! - *Few samples* (an idle path, or one whose application has little to send): below one sample per interval
//!   on average the path passes no bottleneck. Intervals without a sample are used only for losses.
//! - *Clock drift*: 100 ppm are 1 ms in ten seconds, the length of the mean; §4.2 considers that too little
//!   to matter, so there is no correction.
//! - *Coarse timestamps*: means are `f64`, so that their rounding does not bias the skewness (§3.2.2). A
//!   clock of a millisecond needs delays that vary by a hundred milliseconds (§4.1); with less, the
//!   variabilities of two bottlenecks are nearly equal.
//! - *Two bottlenecks with similar statistics* are detected as one, and two paths of one bottleneck whose
//!   delays differ by more than the thresholds as paths of different bottlenecks. `docs/lab-notes/shared-bottlenecks.md` gives the
//!   frequencies.

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
/// F: number of these with full weight; the weight of older ones falls (§3.4.1).
pub const F: usize = 20;
/// c_s: skewness below which a path passes a bottleneck (§2.2, §3.3.1).
pub const C_S: f64 = 0.1;
/// c_h: skewness below which a path still passes a bottleneck if it passed one at the last decision.
pub const C_H: f64 = 0.3;
/// p_s: largest difference of skewness within a group.
pub const P_S: f64 = 0.15;
/// p_f: largest difference of oscillation within a group.
pub const P_F: f64 = 0.1;
/// p_mad: largest relative difference of variability within a group.
pub const P_MAD: f64 = 0.1;
/// p_d: largest relative difference of losses within a group.
pub const P_D: f64 = 0.1;
/// p_l: ratio of losses from which on they are significant.
pub const P_L: f64 = 0.1;
/// p_v: distance, in multiples of the variability, that a mean must have from the long-term mean to be a crossing
/// (§3.2.4).
pub const P_V: f64 = 0.7;
/// Number of intervals after which a path is first grouped: §3.3.2 recommends 2 M.
pub const JUDGED_AFTER: u32 = 2 * M as u32;

/// The mark of a path that is not grouped yet: it may share a bottleneck with any other path.
pub const UNKNOWN: u16 = 0;

/// A sample of a path's delay from an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct DelaySample {
    /// Arrival time of the acknowledgement.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// The delay, apart from a constant.
    pub delay: RelativeDelay,
    /// Total of data packets sent on the path, retransmissions included.
    pub sent: u64,
    /// The number of retransmissions after an assumed loss among `sent`.
    pub lost: u64,
}

/// A delay with an unknown constant offset: only differences are meaningful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelativeDelay {
    /// One way: the peer's clock at the acknowledgement (TSval of RFC 7323) less the local one at the
    /// transmission, milliseconds modulo 2³².
    OneWay(u32),
    /// Round trip, if there are no timestamps: it includes queues on the reverse path.
    RoundTrip(Duration),
}

/// The results for a path, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// The mark of its bottleneck: paths with the same one share it. [`UNKNOWN`] before the first decision.
    pub bottleneck: u16,
    /// Number of base intervals since the path was first grouped.
    pub decisions: u64,
    /// The number of `decisions` by which the path shares its bottleneck with another path.
    pub shared: u64,
    /// The number of `decisions` by which the path passes a bottleneck.
    pub bottlenecked: u64,
}

impl Grouping {
    /// Share of the decisions by which it shared its bottleneck with another path; `None` without a decision.
    pub fn shared_share(&self) -> Option<f64> {
        self.share(self.shared)
    }

    /// Share of the decisions by which it passed a bottleneck.
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
    /// Base intervals since monitoring began.
    age: u32,
}

/// Monitors the paths of a connection and groups them at the end of each base interval.
#[derive(Debug, Default)]
pub struct Detector {
    /// Statistics by path.
    paths: Vec<Option<Watched>>,
    /// The end of the interval; `None` before the first sample.
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

    /// Adds a sample; true if this ended base intervals, so that groups may have changed.
    pub fn sample(&mut self, sample: &DelaySample) -> bool {
        let ended = self.advance(sample.now);
        if let Some(Some(watched)) = self.paths.get_mut(sample.path.index()) {
            watched.statistics.sample(sample);
        }
        ended
    }

    /// The results for a path.
    pub fn grouping(&self, path: PathId) -> Option<Grouping> {
        Some(self.paths.get(path.index())?.as_ref()?.grouping)
    }

    /// Every path with the mark of its bottleneck.
    pub fn marks(&self) -> impl Iterator<Item = (PathId, u16)> {
        let mark = |(at, slot): (usize, &Option<Watched>)| Some((id(at), slot.as_ref()?.grouping.bottleneck));
        self.paths.iter().enumerate().filter_map(mark)
    }

    /// The statistics of a path as of the last interval's end.
    pub fn summary(&self, path: PathId) -> Option<Summary> {
        Some(self.paths.get(path.index())?.as_ref()?.statistics.summary())
    }

    /// Ends the base intervals that are over.
    fn advance(&mut self, now: Time) -> bool {
        let Some(end) = self.end else {
            self.end = Some(now + BASE_INTERVAL);
            return false;
        };
        if now < end {
            return false;
        }
        // After N intervals without a sample all earlier data has expired.
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

/// The mark of a group is derived from its first path.
fn mark(first: PathId) -> u16 {
    u16::from(first.0) + 1
}
