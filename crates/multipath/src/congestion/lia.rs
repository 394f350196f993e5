//! LIA, the linked increases algorithm (RFC 6356; on SCTP "MPTCP-like", Becke2014 §6.2.2).
//!
//! The first publication of MPTCP-like, Dreibholz2011 §III-C, can be read as another algorithm, which is
//! [`lia_2011`](super::lia_2011).
//!
//! Congestion avoidance, per acknowledgement: c += min(a·α·MSS/Σc, α·MSS/c_P) with a = Σc · max(c_i/RTT_i²) / (Σ
//! c_i/RTT_i)². The form of Becke2014, min(⌈â·c_P⌉, MSS) once per full window, opens the window by the same amount per
//! full window. Here both protocols use the form per acknowledgement: it follows a changing total more closely, and the
//! RFC and implementations of TCP use it. Fractions of a byte are carried over to the next acknowledgement. Rounding
//! them up would add considerable growth to a large window.
//!
//! Slow start is that of TCP, or coupled: c += min(⌈c_P/MSS_P · â · min(α, MSS)⌉, min(α, MSS)), where â =
//! max((c_i/MSS_i)/RTT_i²) / (Σ (c_i/MSS_i)/RTT_i)² has windows in packets (Becke2014 eq. 6.11).
//!
//! Loss: s = max(c − c/2, MSS). The sums exclude paths whose round-trip time is unknown; such a path grows like one of
//! n equal paths.

use super::controller::{Algorithm, Controller};
use super::group::{Group, Path, ceil_bytes};
use super::reno::half_window;
use super::{Ack, Entry, Signal, SlowStart};

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: Lia::NAME,
    aliases: &["mptcp-like"],
    summary: "linked increases: together as aggressive as one TCP on the best path",
    source: "RFC 6356, Becke2014 §6.2.2",
    coupled: true,
    signal: Signal::Loss,
    build: &|options| Box::new(Controller::new(Lia { slow_start: options.slow_start })),
};

#[derive(Debug)]
struct Lia {
    slow_start: SlowStart,
}

/// Returns max(w_i/RTT_i²) / (Σ w_i/RTT_i)², where `window` returns w_i.
pub(super) fn aggressiveness(group: &Group<()>, at: usize, window: impl Fn(&Path<()>) -> f64) -> f64 {
    let own = group.path(at);
    if !own.measured() {
        // While this path has no round-trip time, all paths are treated as equal to it.
        let n = group.count(at);
        return 1.0 / (n * n * window(own));
    }
    let (mut best, mut total) = (0.0_f64, 0.0);
    for path in group.included_paths(at) {
        let rate = window(path) * path.per_rtt;
        best = best.max(rate * path.per_rtt);
        total += rate;
    }
    best / (total * total)
}

impl Algorithm for Lia {
    const NAME: &'static str = "lia";
    const PER_WINDOW: bool = false;
    type State = ();

    fn slow_start(&self, group: &Group<()>, at: usize, acked: u64) -> u64 {
        let path = group.path(at);
        match self.slow_start {
            SlowStart::Rfc => path.slow_start_step(acked),
            SlowStart::Coupled => {
                let alone = acked.min(path.mss);
                let factor = path.packets() * aggressiveness(group, at, Path::packets);
                ceil_bytes(factor * alone as f64).min(alone)
            }
        }
    }

    fn avoidance(&mut self, group: &mut Group<()>, at: usize, ack: &Ack) -> f64 {
        let path = group.path(at);
        let linked = aggressiveness(group, at, Path::window);
        ack.acked as f64 * path.mss as f64 * linked.min(1.0 / path.window())
    }

    fn threshold(&self, group: &Group<()>, at: usize) -> u64 {
        let path = group.path(at);
        half_window(path, path.mss)
    }
}
