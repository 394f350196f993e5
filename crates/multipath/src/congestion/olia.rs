//! OLIA, the opportunistic linked increases algorithm (draft-khalili-mptcp-congestion-control; Khalili et al.
//! 2012).
//!
//! Each acknowledged packet adds (w_r/RTT_r²) / (Σ w_p/RTT_p)² + α_r/w_r to w_r; windows are in packets.
//!
//! ℓ_p is the larger of two numbers: the bytes acknowledged since the last loss, and the bytes acknowledged between the
//! last two losses. The *best* paths have the largest ℓ_p/RTT_p², the *largest* paths have the largest window (in whole
//! packets), and the *collected* paths are best but not largest. If there are collected paths, α_r is 1/(n·|collected|)
//! for them and −1/(n·|largest|) for the largest paths: this moves window from the largest to the best paths. Otherwise
//! α is 0. All quotients are real numbers.
//!
//! Slow start is that of TCP. Loss: s = max(c − c/2, MSS). During recovery, the formulas use the window that the common
//! phases maintain, which is the threshold of the path. Sets and sums exclude paths whose round-trip time is unknown;
//! such a path grows like one of n equal paths.

use super::controller::{Algorithm, Controller, Reaction};
use super::group::{Group, Path};
use super::reno::half_window;
use super::{Ack, Entry, Signal};

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: Olia::NAME,
    aliases: &[],
    summary: "opportunistic linked increases: moves window to the best paths",
    source: "draft-khalili-mptcp-congestion-control, Khalili et al. 2012",
    coupled: true,
    signal: Signal::Loss,
    build: &|_| Box::new(Controller::new(Olia)),
};

#[derive(Debug)]
struct Olia;

/// Bytes acknowledged on a path, in relation to its losses.
#[derive(Clone, Debug, Default)]
struct Carried {
    /// Bytes acknowledged since the last loss of the path.
    since: u64,
    /// Bytes acknowledged between the last two losses.
    between: u64,
}

impl Path<Carried> {
    /// Returns ℓ/RTT².
    fn quality(&self) -> f64 {
        self.state.since.max(self.state.between) as f64 * (self.per_rtt * self.per_rtt)
    }

    /// Returns the window in whole packets.
    fn whole_packets(&self) -> u64 {
        self.cwnd / self.mss
    }
}

/// Comparison of the connection's measured paths.
struct Comparison {
    /// Σ w/RTT, packets per second.
    total: f64,
    /// Number of paths that the total includes.
    paths: u32,
    /// The largest ℓ/RTT².
    quality: f64,
    /// The largest window, whole packets.
    largest: u64,
}

impl Comparison {
    fn new(group: &Group<Carried>, at: usize) -> Self {
        let mut all = Self { total: 0.0, paths: 0, quality: 0.0, largest: 0 };
        for path in group.included_paths(at).filter(|path| path.measured()) {
            all.total += path.packets() * path.per_rtt;
            all.paths += 1;
            all.quality = all.quality.max(path.quality());
            all.largest = all.largest.max(path.whole_packets());
        }
        all
    }

    fn is_largest(&self, path: &Path<Carried>) -> bool {
        path.whole_packets() == self.largest
    }

    fn is_collected(&self, path: &Path<Carried>) -> bool {
        path.quality() >= self.quality && !self.is_largest(path)
    }

    /// Returns α_r.
    fn alpha(&self, group: &Group<Carried>, at: usize) -> f64 {
        let (mut collected, mut largest) = (0_u32, 0_u32);
        for path in group.included_paths(at).filter(|path| path.measured()) {
            collected += u32::from(self.is_collected(path));
            largest += u32::from(self.is_largest(path));
        }
        let own = group.path(at);
        let n = f64::from(self.paths);
        if collected == 0 {
            0.0
        } else if self.is_collected(own) {
            1.0 / (n * f64::from(collected))
        } else if self.is_largest(own) {
            -1.0 / (n * f64::from(largest))
        } else {
            0.0
        }
    }
}

impl Algorithm for Olia {
    const NAME: &'static str = "olia";
    const PER_WINDOW: bool = false;
    const OWN_COUNT: bool = true;
    type State = Carried;

    fn observe(&mut self, group: &mut Group<Carried>, at: usize, ack: &Ack) {
        let carried = &mut group.path_mut(at).state;
        carried.since = carried.since.saturating_add(ack.acked);
    }

    fn avoidance(&mut self, group: &mut Group<Carried>, at: usize, ack: &Ack) -> f64 {
        let path = group.path(at);
        let window = path.packets();
        // The increase in packets per acknowledged packet equals the increase in bytes per acknowledged byte.
        let acked = ack.acked as f64;
        if !path.measured() {
            let n = group.count(at);
            return acked / (n * n * window);
        }
        let all = Comparison::new(group, at);
        let linked = window * (path.per_rtt * path.per_rtt) / (all.total * all.total);
        let alpha = if all.paths > 1 { all.alpha(group, at) } else { 0.0 };
        acked * (linked + alpha / window)
    }

    fn threshold(&self, group: &Group<Carried>, at: usize) -> u64 {
        let path = group.path(at);
        half_window(path, path.mss)
    }

    fn react(&mut self, group: &mut Group<Carried>, at: usize, reaction: Reaction) {
        if reaction != Reaction::Reset {
            let carried = &mut group.path_mut(at).state;
            carried.between = core::mem::take(&mut carried.since);
        }
    }

    /// Adds the bytes acknowledged since the spurious loss to the interval that this loss had ended.
    fn undo(state: &mut Carried, before: Carried) {
        state.since = state.since.saturating_add(before.since);
        state.between = before.between;
    }
}
