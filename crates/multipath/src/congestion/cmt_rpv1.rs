//! CMT/RPv1, resource pooling by thresholds (Dreibholz2011 §III-B.1).
//!
//! The share of a path is ŝ_P = s_P / Σ s_i. Slow start: c += ⌈ŝ_P · min(α, MSS)⌉ per acknowledgement. Congestion
//! avoidance: c += ⌈ŝ_P · MSS⌉ per full window. Loss: s = max(c − ½ Σ c_i, ⌈ŝ_P · 4 · MSS⌉, MSS).
//!
//! A path that has had no loss has no threshold; for it, the formulas use the mean of the known thresholds. While no
//! threshold is known, all shares are equal.

use super::controller::{Algorithm, Controller};
use super::group::{Group, ceil_bytes};
use super::{Ack, Entry, Signal};

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: CmtRpV1::NAME,
    aliases: &["rpv1"],
    summary: "growth shared by slow-start thresholds, loss takes half of the total window",
    source: "Dreibholz2011 §III-B.1",
    coupled: true,
    signal: Signal::Loss,
    build: &|_| Box::new(Controller::new(CmtRpV1)),
};

#[derive(Debug)]
struct CmtRpV1;

/// Returns ŝ_P · `bytes`.
fn share(group: &Group<()>, at: usize, bytes: u64) -> f64 {
    let (mut known, mut sum, mut paths) = (0_u32, 0.0, 0_u32);
    for path in group.included_paths(at) {
        paths += 1;
        if path.ssthresh != u64::MAX {
            known += 1;
            sum += path.ssthresh as f64;
        }
    }
    let own = group.path(at).ssthresh;
    if known == 0 || own == u64::MAX {
        return bytes as f64 / f64::from(paths);
    }
    // Each unknown threshold adds the mean of the known ones to the sum.
    let total = sum * f64::from(paths) / f64::from(known);
    bytes as f64 * own as f64 / total
}

impl Algorithm for CmtRpV1 {
    const NAME: &'static str = "cmt-rpv1";
    const PER_WINDOW: bool = true;
    const OWN_COUNT: bool = true;
    type State = ();

    fn slow_start(&self, group: &Group<()>, at: usize, acked: u64) -> u64 {
        ceil_bytes(share(group, at, acked.min(group.path(at).mss)))
    }

    fn avoidance(&mut self, group: &mut Group<()>, at: usize, _ack: &Ack) -> f64 {
        share(group, at, group.path(at).mss)
    }

    fn threshold(&self, group: &Group<()>, at: usize) -> u64 {
        let path = group.path(at);
        let remaining = path.cwnd.saturating_sub(group.total_window(at).div_ceil(2));
        remaining.max(ceil_bytes(share(group, at, 4 * path.mss)))
    }
}
