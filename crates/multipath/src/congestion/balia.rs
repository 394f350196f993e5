//! BALIA, the balanced linked adaptation (draft-walid-mptcp-congestion-control; Peng et al. 2014).
//!
//! The rates are x_r = w_r/RTT_r, with windows in packets, and a_r = max_k x_k / x_r is a real number. Each
//! acknowledged packet adds x_r / (RTT_r · (Σ x_k)²) · (1 + a_r)/2 · (4 + a_r)/5 to w_r. A loss subtracts (w_r/2) ·
//! min(a_r, 1.5); the minimum window is one packet.
//!
//! Slow start is that of TCP. The sum excludes paths whose round-trip time is unknown; such a path grows like one of n
//! equal paths.

use super::controller::{Algorithm, Controller};
use super::group::{Group, ceil_bytes};
use super::{Ack, Entry, Signal};

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: Balia::NAME,
    aliases: &[],
    summary: "balanced linked adaptation: between LIA's friendliness and OLIA's responsiveness",
    source: "draft-walid-mptcp-congestion-control, Peng et al. 2014",
    coupled: true,
    signal: Signal::Loss,
    build: &|_| Box::new(Controller::new(Balia)),
};

#[derive(Debug)]
struct Balia;

/// Returns (Σ x_k, a_r) with rates in packets per second; `None` while the path's own rate is unknown.
fn rates(group: &Group<()>, at: usize) -> Option<(f64, f64)> {
    let own = group.path(at);
    if !own.measured() {
        return None;
    }
    let (mut total, mut largest) = (0.0, 0.0_f64);
    for path in group.included_paths(at) {
        let rate = path.packets() * path.per_rtt;
        total += rate;
        largest = largest.max(rate);
    }
    Some((total, largest / (own.packets() * own.per_rtt)))
}

impl Algorithm for Balia {
    const NAME: &'static str = "balia";
    const PER_WINDOW: bool = false;
    type State = ();

    fn avoidance(&mut self, group: &mut Group<()>, at: usize, ack: &Ack) -> f64 {
        let path = group.path(at);
        let window = path.packets();
        // The increase in packets per acknowledged packet equals the increase in bytes per acknowledged byte.
        let acked = ack.acked as f64;
        let Some((total, a)) = rates(group, at) else {
            let n = group.count(at);
            return acked / (n * n * window);
        };
        let linked = window * (path.per_rtt * path.per_rtt) / (total * total);
        acked * linked * (1.0 + a) * (4.0 + a) / 10.0
    }

    fn threshold(&self, group: &Group<()>, at: usize) -> u64 {
        let cwnd = group.path(at).cwnd;
        let a = rates(group, at).map_or(1.0, |(_, a)| a);
        cwnd.saturating_sub(ceil_bytes(cwnd as f64 / 2.0 * a.min(1.5)))
    }
}
