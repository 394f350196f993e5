//! Westwood+ on each path independently (Grieco, Mascolo: Performance Evaluation and Comparison of Westwood+, New Reno,
//! and Vegas TCP Congestion Control, ACM Computer Communication Review 34(2), 2004).
//!
//! Growth is that of Reno. Once per round trip, b, the bytes acknowledged in it divided by its duration, is a sample of
//! the bandwidth, and BWE = ⅞·BWE + ⅛·b. Loss and timeout: s = max(2 packets, BWE·RTTmin), the window that keeps the
//! path full without a queue; a loss does not raise the window. Before the first sample, a loss halves the window as in
//! Reno.

use super::controller::{Algorithm, Controller};
use super::group::Group;
use super::reno::half_window;
use super::{Ack, Entry, Signal};
use anabranch_base::time::{Duration, Time};

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: Westwood::NAME,
    aliases: &["westwood+"],
    summary: "Reno, but a loss reduces the window to the estimated bandwidth times the smallest round-trip time",
    source: "Grieco, Mascolo 2004",
    coupled: false,
    signal: Signal::Loss,
    build: &|_| Box::new(Controller::new(Westwood)),
};

/// Weight of the earlier estimate in the new one.
const WEIGHT: f64 = 7.0 / 8.0;
/// Minimum threshold after a loss, packets.
const MIN_PACKETS: u64 = 2;

#[derive(Debug)]
struct Westwood;

#[derive(Clone, Debug)]
struct State {
    /// Smallest round-trip sample since the path was added, seconds.
    least: f64,
    /// Bytes acknowledged since the beginning of the current sample.
    acked: f64,
    /// Beginning of the current sample; `None` before the first acknowledgement.
    begin: Option<Time>,
    /// Estimated bandwidth, bytes per second; 0 before the first sample.
    bandwidth: f64,
}

impl Default for State {
    fn default() -> Self {
        Self { least: f64::INFINITY, acked: 0.0, begin: None, bandwidth: 0.0 }
    }
}

impl Algorithm for Westwood {
    const NAME: &'static str = "westwood";
    const PER_WINDOW: bool = true;
    type State = State;

    fn observe(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) {
        let state = &mut group.path_mut(at).state;
        if let Some(rtt) = ack.rtt {
            state.least = state.least.min(rtt.max(Duration::from_micros(1)).as_secs_f64());
        }
        // The first acknowledgement only begins the first sample; its data was sent before that.
        let Some(begin) = state.begin else {
            state.begin = Some(ack.now);
            return;
        };
        state.acked += ack.acked as f64;
        let elapsed = ack.now.since(begin);
        if ack.srtt.is_some_and(|srtt| elapsed >= srtt) && elapsed > Duration::ZERO {
            let sample = state.acked / elapsed.as_secs_f64();
            state.bandwidth = match state.bandwidth {
                0.0 => sample,
                before => WEIGHT * before + (1.0 - WEIGHT) * sample,
            };
            (state.begin, state.acked) = (Some(ack.now), 0.0);
        }
    }

    fn avoidance(&mut self, group: &mut Group<State>, at: usize, _ack: &Ack) -> f64 {
        group.path(at).mss as f64
    }

    fn threshold(&self, group: &Group<State>, at: usize) -> u64 {
        let path = group.path(at);
        let State { least, bandwidth, .. } = path.state;
        let floor = MIN_PACKETS * path.mss;
        if bandwidth == 0.0 || least == f64::INFINITY {
            return half_window(path, floor);
        }
        ((bandwidth * least) as u64).min(path.cwnd).max(floor)
    }

    /// Keeps the state, because the estimate does not depend on the reaction.
    fn undo(_state: &mut State, _before: State) {}
}
