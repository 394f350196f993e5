//! Which paths of a connection share a bottleneck, found by what their delays look like (RFC 8382).
//!
//! Each path has summary statistics of its one-way delay over base intervals of 350 ms (§3.2): how skewed it is, how variable,
//! how often its mean oscillates, and how much is lost. A path whose delay lies above its mean more often than not, or that
//! loses much, passes a bottleneck (§3.3.1, first test); those that look alike pass the same one (further tests). The sender
//! does all of it (§3.1.1).
//!
//! Only differences of delays count, so that clocks need not agree. What the method assumes may fail:
//!
//! - *No queue, or none most of the time*: the delay is at its floor and its skewness positive. The path passes no bottleneck.
//! - *Few samples* (an idle path, or one whose application has little to send): below one sample an interval on average the
//!   path passes no bottleneck. Intervals without a sample count in nothing but losses.
//! - *A clock that runs faster than the other*: 100 ppm are 1 ms in ten seconds, the length of the mean; §4.2 calls that too
//!   little to matter, and nothing is done about it.
//! - *Coarse timestamps*: means are `f64`, so that no rounding of theirs biases the skewness (§3.2.2). A clock of a
//!   millisecond wants delays that vary by a hundred of them (§4.1); with less the variabilities of two bottlenecks look alike.
//! - *Two bottlenecks that look alike* are taken for one, and two paths whose delays differ by more than the thresholds for
//!   paths of different bottlenecks. `docs/lab-notes/shared-bottlenecks.md` has the rates.

mod grouping;
mod statistics;
#[cfg(test)]
mod tests;

pub use grouping::group;
pub use statistics::{Statistics, Summary};

use crate::PathId;
use crate::time::{Duration, Time};

/// T: the base interval (§2.2).
pub const BASE_INTERVAL: Duration = Duration::from_millis(350);
/// N: over how many intervals oscillations and losses are counted (§2.2).
pub const N: usize = 50;
/// M: over how many intervals means, skewness and variability go (§2.2).
pub const M: usize = 30;
/// F: how many of these count in full; the weight of older ones falls (§3.4.1).
pub const F: usize = 20;
/// c_s: skewness below which a path passes a bottleneck (§2.2, §3.3.1).
pub const C_S: f64 = 0.1;
/// c_h: the same for one that did at the last decision.
pub const C_H: f64 = 0.3;
/// p_s: largest difference of skewness within a group.
pub const P_S: f64 = 0.15;
/// p_f: largest difference of oscillation within a group.
pub const P_F: f64 = 0.1;
/// p_mad: largest relative difference of variability within a group.
pub const P_MAD: f64 = 0.1;
/// p_d: largest relative difference of losses within a group.
pub const P_D: f64 = 0.1;
/// p_l: losses from which on they say something.
pub const P_L: f64 = 0.1;
/// p_v: how many times the variability a mean has to cross the long-term mean by, to count as a crossing (§3.2.4).
pub const P_V: f64 = 0.7;
/// After how many intervals a path is judged: §3.3.2 recommends 2 M.
pub const JUDGED_AFTER: u32 = 2 * M as u32;

/// The mark of a path that is not judged yet: it may share a bottleneck with any other.
pub const UNKNOWN: u16 = 0;

/// What an acknowledgement tells of a path's delay.
#[derive(Clone, Copy, Debug)]
pub struct DelaySample {
    /// When it arrived.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// The delay, less anything that does not change.
    pub delay: RelativeDelay,
    /// Data packets sent on the path so far, retransmissions included.
    pub sent: u64,
    /// Of these, those that were sent again because an earlier one was held to be lost.
    pub lost: u64,
}

/// A delay of which only differences mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelativeDelay {
    /// One way: the peer's clock when it acknowledged (TSval of RFC 7323) less the own one when the data left, milliseconds
    /// modulo 2³².
    OneWay(u32),
    /// There and back, where there are no timestamps: what is queued on the way back counts, too.
    RoundTrip(Duration),
}

/// What became of a path, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// The mark of its bottleneck: paths with the same one share it. [`UNKNOWN`] before the first decision.
    pub bottleneck: u16,
    /// Base intervals since it was judged first.
    pub decisions: u64,
    /// Those at whose end it shared its bottleneck with another path.
    pub shared: u64,
    /// Those at whose end it passed a bottleneck at all.
    pub bottlenecked: u64,
}

impl Grouping {
    /// Share of the decisions that found it to share its bottleneck with another path, if there were any.
    pub fn shared_share(&self) -> Option<f64> {
        self.share(self.shared)
    }

    /// Share of the decisions that found it to pass a bottleneck.
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
    /// Base intervals that it has been watched for.
    age: u32,
}

/// Watches the paths of a connection and groups them at the end of each base interval.
#[derive(Debug, Default)]
pub struct Detector {
    /// By path.
    paths: Vec<Option<Watched>>,
    /// When the interval ends; none before the first sample.
    end: Option<Time>,
}

impl Detector {
    /// A path joins.
    pub fn add(&mut self, path: PathId) {
        if self.paths.len() <= path.index() {
            self.paths.resize_with(path.index() + 1, || None);
        }
        self.paths[path.index()] = Some(Watched::default());
    }

    /// A path leaves for good.
    pub fn remove(&mut self, path: PathId) {
        if let Some(slot) = self.paths.get_mut(path.index()) {
            *slot = None;
        }
    }

    /// Takes a sample; true if base intervals have ended with it, so that paths may have moved.
    pub fn sample(&mut self, sample: &DelaySample) -> bool {
        let ended = self.advance(sample.now);
        if let Some(Some(watched)) = self.paths.get_mut(sample.path.index()) {
            watched.statistics.sample(sample);
        }
        ended
    }

    /// What is known of a path.
    pub fn grouping(&self, path: PathId) -> Option<Grouping> {
        Some(self.paths.get(path.index())?.as_ref()?.grouping)
    }

    /// Every path with its mark.
    pub fn marks(&self) -> impl Iterator<Item = (PathId, u16)> {
        let mark = |(at, slot): (usize, &Option<Watched>)| Some((id(at), slot.as_ref()?.grouping.bottleneck));
        self.paths.iter().enumerate().filter_map(mark)
    }

    /// The statistics of a path as of the last interval's end.
    pub fn summary(&self, path: PathId) -> Option<Summary> {
        Some(self.paths.get(path.index())?.as_ref()?.statistics.summary())
    }

    /// Ends the intervals that are over.
    fn advance(&mut self, now: Time) -> bool {
        let Some(end) = self.end else {
            self.end = Some(now + BASE_INTERVAL);
            return false;
        };
        if now < end {
            return false;
        }
        // After N intervals without a sample nothing is left of what came before.
        let over = 1 + now.since(end).as_nanos() / BASE_INTERVAL.as_nanos();
        for _ in 0..over.min(N as u64) {
            self.decide();
        }
        self.end = Some(end + BASE_INTERVAL.saturating_mul(over));
        true
    }

    /// An interval ends: paths are grouped anew (§3.3.1).
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

/// A group is called by its first path.
fn mark(first: PathId) -> u16 {
    u16::from(first.0) + 1
}
