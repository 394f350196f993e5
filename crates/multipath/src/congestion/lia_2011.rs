//! MPTCP-like congestion control in its first publication for SCTP (Dreibholz2011 §III-C), in the
//! interpretation with consistent units.
//!
//! â = Σ c_i · max(c_i/RTT_i²) / (Σ c_i/RTT_i)² is a number without unit: 1 for one path, 1/n for n equal paths. Slow
//! start: c += min(⌈â · min(α, MSS)⌉, min(α, MSS)) per acknowledgement. Congestion avoidance: c += min(⌈â · MSS⌉, MSS)
//! per full window. Loss: the same as in [`lia`](super::lia).
//!
//! In RFC 6356, the growth of each path is this growth times its share of the total window, c_P/Σ c_i. Without that
//! factor, a path with a small window grows as fast as one with a large window. So n equal paths together grow n times
//! as fast as with LIA: each of them as fast as one flow. So this algorithm is closer to uncoupled paths than LIA; it is
//! not designed to be fair to TCP.

use super::controller::{Algorithm, Controller};
use super::group::{Group, Path, ceil_bytes};
use super::lia::aggressiveness;
use super::reno::half_window;
use super::{Ack, Entry, Signal};

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: Lia2011::NAME,
    aliases: &[],
    summary: "linked increases in their first publication for SCTP: every path grows by the same factor",
    source: "Dreibholz2011 §III-C, in one interpretation",
    coupled: true,
    signal: Signal::Loss,
    build: &|_| Box::new(Controller::new(Lia2011)),
};

#[derive(Debug)]
struct Lia2011;

/// Returns min(⌈â · `bytes`⌉, `bytes`).
fn scaled_growth(group: &Group<()>, at: usize, bytes: u64) -> u64 {
    let total = group.total_window(at) as f64;
    ceil_bytes(total * aggressiveness(group, at, Path::window) * bytes as f64).min(bytes)
}

impl Algorithm for Lia2011 {
    const NAME: &'static str = "lia-2011";
    const PER_WINDOW: bool = true;
    type State = ();

    fn slow_start(&self, group: &Group<()>, at: usize, acked: u64) -> u64 {
        scaled_growth(group, at, acked.min(group.path(at).mss))
    }

    fn avoidance(&mut self, group: &mut Group<()>, at: usize, _ack: &Ack) -> f64 {
        scaled_growth(group, at, group.path(at).mss) as f64
    }

    fn threshold(&self, group: &Group<()>, at: usize) -> u64 {
        let path = group.path(at);
        half_window(path, path.mss)
    }
}
