//! New Reno on each path independently: the congestion control of TCP (RFC 5681, RFC 6582), of SCTP (RFC 9260 §7.2),
//! and of CMT without coupling (Dreibholz2011 §III-A).
//!
//! Slow start: c += min(α, MSS) per acknowledgement. Congestion avoidance: c += MSS per full window. Loss: s = max(c −
//! c/2, minimum threshold); for TCP, c is here the part of the window that is in use.

use super::controller::{Algorithm, Controller};
use super::group::{Group, Path};
use super::{Ack, Entry, Signal};

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: Reno::NAME,
    aliases: &["new-reno", "cmt"],
    summary: "one packet per round trip and path, half the window on loss",
    source: "RFC 5681, RFC 6582, RFC 9260 §7.2, Dreibholz2011 §III-A",
    coupled: false,
    signal: Signal::Loss,
    build: &|_| Box::new(Controller::new(Reno)),
};

/// Returns half of the window, but at least `floor`, bytes: the loss reaction that several algorithms share.
pub(super) fn half_window<S>(path: &Path<S>, floor: u64) -> u64 {
    (path.cwnd - path.cwnd / 2).max(floor)
}

#[derive(Debug)]
struct Reno;

impl Algorithm for Reno {
    const NAME: &'static str = "reno";
    const PER_WINDOW: bool = true;
    type State = ();

    fn avoidance(&mut self, group: &mut Group<()>, at: usize, _ack: &Ack) -> f64 {
        group.path(at).mss as f64
    }

    fn threshold(&self, group: &Group<()>, at: usize) -> u64 {
        let path = group.path(at);
        half_window(path, path.floor())
    }
}
