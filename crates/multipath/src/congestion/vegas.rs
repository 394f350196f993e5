//! Vegas on each path independently (Brakmo, Peterson: TCP Vegas: End to End Congestion Avoidance on a Global Internet,
//! IEEE Journal on Selected Areas in Communications 13(8), 1995).
//!
//! Once per round trip, diff = w·(1 − base/RTT) estimates the number of packets that the flow has in queues; windows
//! are in packets. Congestion avoidance: w += 1 if diff < α, w −= 1 if diff > β. Slow start doubles the window every
//! other round trip, so that the rounds between measure a constant window. It ends when diff > γ, with w = min(w,
//! w·base/RTT + 1). A loss reduces the window as in Reno.
//!
//! Where the paper leaves a choice, this implementation follows Linux. RTT is the smallest sample of the round, which
//! excludes delayed acknowledgements. A round with fewer than 3 samples grows the window as Reno does. A decrease also
//! lowers the threshold (s ≤ w − 1), and each round raises the threshold to at least ¾·w. A round lasts from its first
//! acknowledgement for the duration of its newest round-trip sample.

use super::controller::{Algorithm, Controller, Reaction};
use super::group::{Group, Path};
use super::reno::half_window;
use super::{Ack, Entry, Signal};
use anabranch_base::time::{Duration, Time};

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: Vegas::NAME,
    aliases: &[],
    summary: "delay-based: two to four packets of each path in queues",
    source: "Brakmo, Peterson 1995",
    coupled: false,
    signal: Signal::Delay,
    build: &|_| Box::new(Controller::new(Vegas)),
};

/// Backlog below which the window grows, packets.
const ALPHA: f64 = 2.0;
/// Backlog above which the window shrinks, packets.
const BETA: f64 = 4.0;
/// Backlog that ends slow start, packets.
const GAMMA: f64 = 1.0;
/// Minimum number of round-trip samples in a round for a decision by delay.
const MIN_SAMPLES: u32 = 3;
/// Minimum window after a decision, packets.
const MIN_PACKETS: u64 = 2;

#[derive(Debug)]
struct Vegas;

#[derive(Clone, Debug)]
struct State {
    /// Smallest sample since the path was added, seconds.
    base: f64,
    /// Number of samples of this round.
    samples: u32,
    /// Smallest sample of this round, seconds.
    smallest: f64,
    /// Bytes acknowledged in this round, for the growth as in Reno.
    acked: u64,
    /// Time at which the round ends.
    round_end: Time,
    /// True if this round of slow start measures, with a constant window.
    pauses: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            base: f64::INFINITY,
            samples: 0,
            smallest: f64::INFINITY,
            acked: 0,
            round_end: Time::ZERO,
            pauses: false,
        }
    }
}

impl State {
    fn restart_round(&mut self) {
        (self.samples, self.smallest, self.acked) = (0, f64::INFINITY, 0);
    }
}

impl Path<State> {
    /// Changes the window at the end of a round with enough samples.
    fn decide(&mut self) {
        let (base, rtt) = (self.state.base, self.state.smallest);
        let diff = self.packets() * (1.0 - base / rtt);
        if self.slow_starts() {
            if diff > GAMMA {
                let target = (self.window() * base / rtt) as u64 + self.mss;
                self.shrink(self.cwnd.min(target));
            }
        } else if diff > BETA {
            self.shrink(self.cwnd.saturating_sub(self.mss));
        } else if diff < ALPHA {
            self.grow(self.mss);
        }
        if self.ssthresh != u64::MAX {
            self.set_ssthresh(self.ssthresh.max(self.cwnd / 4 * 3));
        }
    }

    /// Sets a smaller window, and lowers the threshold to less than it: s = min(s, w − 1).
    fn shrink(&mut self, bytes: u64) {
        self.set_window(bytes.max(MIN_PACKETS * self.mss));
        self.set_ssthresh(self.ssthresh.min(self.cwnd - self.mss));
    }
}

impl Algorithm for Vegas {
    const NAME: &'static str = "vegas";
    const PER_WINDOW: bool = false;
    type State = State;

    fn observe(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) {
        let path = group.path_mut(at);
        let Some(rtt) = ack.rtt else { return };
        let rtt = rtt.max(Duration::from_micros(1)).as_secs_f64();
        path.state.base = path.state.base.min(rtt);
        if !path.recovering {
            path.state.samples += 1;
            path.state.smallest = path.state.smallest.min(rtt);
        }
    }

    fn grow(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) {
        let path = group.path_mut(at);
        path.state.acked = path.state.acked.saturating_add(ack.acked);
        if ack.now >= path.state.round_end {
            path.state.round_end = ack.now + ack.rtt.or(ack.srtt).unwrap_or(Duration::ZERO);
            let acked = path.state.acked;
            if path.state.samples >= MIN_SAMPLES {
                path.decide();
                path.state.pauses = !path.state.pauses;
            } else {
                path.state.pauses = false;
                if !path.slow_starts() && path.full_window(acked) {
                    path.grow(path.mss);
                }
            }
            path.state.restart_round();
        }
        if path.slow_starts() && !path.state.pauses {
            path.grow(path.slow_start_step(ack.acked));
        }
    }

    /// Returns no growth: [`grow`](Self::grow) changes the window, once per round trip.
    fn avoidance(&mut self, _group: &mut Group<State>, _at: usize, _ack: &Ack) -> f64 {
        0.0
    }

    fn threshold(&self, group: &Group<State>, at: usize) -> u64 {
        let path = group.path(at);
        half_window(path, path.floor())
    }

    fn react(&mut self, group: &mut Group<State>, at: usize, _reaction: Reaction) {
        let state = &mut group.path_mut(at).state;
        state.restart_round();
        state.pauses = false;
    }

    /// Keeps the state: the round goes on, and its samples were measured with the reduced window.
    fn undo(_state: &mut State, _before: State) {}
}
