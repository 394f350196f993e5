//! CMT/RPv2, resource pooling by rates (Dreibholz2011 §III-B.2, Becke2014 §6.2.1).
//!
//! The share of a path is î_P = (c_P/RTT_P) / Σ (c_i/RTT_i). Slow start: c += ⌈î_P · min(α, MSS)⌉ per acknowledgement.
//! Congestion avoidance: c += ⌈î_P · MSS⌉ per full window. Loss: s = max(c − ⌈d̂_P · c⌉, MSS) with d̂_P = max(½, ½ /
//! î_P).
//!
//! The sum excludes paths whose round-trip time is unknown; such a path has the average share.

use super::controller::{Algorithm, Controller};
use super::group::{Group, ceil_bytes};
use super::{Ack, Entry, Signal};

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: CmtRpV2::NAME,
    aliases: &["rpv2", "rp-mpv2"],
    summary: "growth shared by rates, loss takes half of the total rate",
    source: "Dreibholz2011 §III-B.2, Becke2014 §6.2.1",
    coupled: true,
    signal: Signal::Loss,
    build: &|_| Box::new(Controller::new(CmtRpV2)),
};

#[derive(Debug)]
struct CmtRpV2;

/// Returns (c_P/RTT_P, Σ c_i/RTT_i), both in the same unit.
fn rates(group: &Group<()>, at: usize) -> (f64, f64) {
    match group.path(at).rate() {
        0.0 => (1.0, group.count(at)),
        own => (own, group.total_rate(at)),
    }
}

impl Algorithm for CmtRpV2 {
    const NAME: &'static str = "cmt-rpv2";
    const PER_WINDOW: bool = true;
    const OWN_COUNT: bool = true;
    type State = ();

    fn slow_start(&self, group: &Group<()>, at: usize, acked: u64) -> u64 {
        let (own, total) = rates(group, at);
        ceil_bytes(acked.min(group.path(at).mss) as f64 * own / total)
    }

    fn avoidance(&mut self, group: &mut Group<()>, at: usize, _ack: &Ack) -> f64 {
        let (own, total) = rates(group, at);
        group.path(at).mss as f64 * own / total
    }

    fn threshold(&self, group: &Group<()>, at: usize) -> u64 {
        let (own, total) = rates(group, at);
        let cwnd = group.path(at).cwnd;
        // The sum includes this path, so own ≤ total, and ½ · total/own is at least ½, as the definition requires.
        let loss = ceil_bytes(cwnd as f64 * (0.5 * total / own));
        cwnd.saturating_sub(loss)
    }
}
