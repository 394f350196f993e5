//! CMT/RPv2, resource pooling by rates (Dreibholz2011 §III-B.2, Becke2014 §6.2.1).
//!
//! With the share î_P = (c_P/RTT_P) / Σ (c_i/RTT_i): slow start c += ⌈î_P · min(α, MSS)⌉; avoidance c += ⌈î_P
//! · MSS⌉ per full window; loss s = max(c − ⌈d̂_P · c⌉, MSS) with d̂_P = max(½, ½ / î_P).
//!
//! The sum does not include paths without a known round-trip time; the share of such a path is the average one.

use super::controller::{Algorithm, Controller};
use super::group::{Group, ceil_bytes};
use super::{Ack, Entry, Signal};

/// The entry of this control in the table of controls.
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

/// (c_P/RTT_P, Σ c_i/RTT_i), in any unit.
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
        // own ≤ total: the path is in the sum. So ½ · total/own is at least ½, as defined.
        let loss = ceil_bytes(cwnd as f64 * (0.5 * total / own));
        cwnd.saturating_sub(loss)
    }
}
