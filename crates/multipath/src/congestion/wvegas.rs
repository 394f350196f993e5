//! wVegas, weighted Vegas (Cao, Xu, Fu: Delay-based congestion control for multipath TCP, ICNP 2012).
//!
//! Vegas on each path, with a backlog of 10 packets for the whole connection, of which each path gets a share by
//! weight. Once per round trip, diff = w·(1 − base/RTT) estimates the backlog of the path; RTT is the mean of the
//! round's samples, and windows are in packets.
//!
//! Slow start ends when the persistent queue is longer than a packet: w·(1 − base/smallest) > 1, where smallest is the
//! smallest RTT of the round. Then w = min(w, w·base/RTT + 1) and s = min(s, w − 1). Congestion avoidance, when diff ≥
//! α: rate = w/RTT, α = max(2, 10·rate/Σ rate_i); then w += 1 if diff < α, w −= 1 if diff > α. Drain, in a round with
//! diff ≥ α: with q = smallest − base, and q_min the smallest q since the last drain, q ≥ 2·q_min multiplies w by
//! base/(2·RTT) and resets q_min. The minimum window is 2 packets. A round with fewer than 3 samples grows the window
//! as Reno does. A loss reduces the window as in Reno; a timeout also resets the rate.
//!
//! The paper, and its authors' code, use the mean of a round for the ends of slow start and for drains. With a clock of
//! a nanosecond, a sender without a backlog measures only its own bursts, which are a fraction of a packet each. The
//! paper's rule takes a change of these bursts for a doubled queue, so that a single flow uses a long path at a tenth
//! of its rate. Therefore, this implementation uses the smallest sample, and drains only when the backlog has been
//! reached.
//!
//! Where the paper leaves a choice, this implementation follows its authors' Linux code: a decrease also lowers the
//! threshold (s ≤ w − 1), and each round raises the threshold to at least ¾·w, so that a path returns from a drain in
//! slow start. A round lasts from its first acknowledgement for the duration of its newest round-trip sample.

use super::controller::{Algorithm, Controller, Reaction};
use super::group::{Group, Path};
use super::reno::half_window;
use super::{Ack, Entry, Signal};
use anabranch_base::time::{Duration, Time};

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: WVegas::NAME,
    aliases: &[],
    summary: "delay-based: a backlog of ten packets, shared by rates",
    source: "Cao, Xu, Fu: ICNP 2012",
    coupled: true,
    signal: Signal::Delay,
    build: &|_| Box::new(Controller::new(WVegas)),
};

/// Backlog of all paths of a connection together, packets.
const TOTAL_ALPHA: f64 = 10.0;
/// Minimum backlog of a path, packets.
const MIN_ALPHA: f64 = 2.0;
/// Backlog that ends slow start, packets.
const GAMMA: f64 = 1.0;
/// Minimum number of round-trip samples in a round for a decision by delay.
const MIN_SAMPLES: u32 = 3;
/// Minimum window after a decision, packets.
const MIN_PACKETS: u64 = 2;

#[derive(Debug)]
struct WVegas;

#[derive(Clone, Debug)]
struct State {
    /// Smallest sample since the path was added, seconds.
    base: f64,
    /// Sum of the samples of this round, seconds.
    sampled: f64,
    /// Number of samples of this round.
    samples: u32,
    /// Smallest sample of this round, seconds.
    smallest: f64,
    /// Bytes acknowledged in this round, for the growth as in Reno.
    acked: u64,
    /// Time at which the round ends.
    round_end: Time,
    /// Target backlog of this path, packets.
    alpha: f64,
    /// Rate of the path when it last reached its backlog, packets per second; 0 if it never has.
    rate: f64,
    /// Smallest queueing delay since the last drain, seconds; 0 if there was no measurement.
    least_queue: f64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            base: f64::INFINITY,
            sampled: 0.0,
            samples: 0,
            smallest: f64::INFINITY,
            acked: 0,
            round_end: Time::ZERO,
            alpha: MIN_ALPHA,
            rate: 0.0,
            least_queue: 0.0,
        }
    }
}

impl State {
    fn restart_round(&mut self) {
        self.sampled = 0.0;
        self.samples = 0;
        self.smallest = f64::INFINITY;
        self.acked = 0;
    }

    /// True if a queueing delay of `queue` seconds is at least twice the smallest since the last drain, so the queue
    /// must be drained. Then resets the smallest.
    fn drains(&mut self, queue: f64) -> bool {
        if self.least_queue == 0.0 || queue < self.least_queue {
            self.least_queue = queue;
        }
        let drains = queue > 0.0 && queue >= 2.0 * self.least_queue;
        if drains {
            self.least_queue = 0.0;
        }
        drains
    }
}

impl Path<State> {
    /// Sets the window after a decision, in bytes, to at least the minimum.
    fn decide(&mut self, bytes: u64) {
        self.set_window(bytes.max(MIN_PACKETS * self.mss));
    }

    /// Lowers the threshold to less than the window: s = min(s, w − 1).
    fn lower_threshold(&mut self) {
        self.set_ssthresh(self.ssthresh.min(self.cwnd - self.mss));
    }

    /// Changes the window by one step according to the backlog `diff`. Then drains the queue if that is due, which
    /// means that the queue has persisted through a round with a full backlog.
    fn step(&mut self, diff: f64, rtt: f64) {
        let settled = diff >= self.state.alpha;
        if diff < self.state.alpha {
            self.grow(self.mss);
        } else if diff > self.state.alpha {
            self.decide(self.cwnd.saturating_sub(self.mss));
            self.lower_threshold();
        }
        let base = self.state.base;
        if settled && self.state.drains(self.state.smallest - base) {
            self.decide((self.window() * base / (2.0 * rtt)) as u64);
        }
    }
}

/// Updates the shares of the backlog in a round with diff ≥ α, in which the rate of the path becomes known.
fn update_alpha(group: &mut Group<State>, at: usize, rtt: f64) {
    let path = group.path_mut(at);
    let rate = path.packets() / rtt;
    path.state.rate = rate;
    let total: f64 = group.included_paths(at).map(|path| path.state.rate).sum();
    group.path_mut(at).state.alpha = (TOTAL_ALPHA * rate / total).max(MIN_ALPHA);
}

/// Changes the window at the end of a round with enough samples.
fn decide(group: &mut Group<State>, at: usize, acked: u64) {
    let path = group.path_mut(at);
    let rtt = path.state.sampled / f64::from(path.state.samples);
    let base = path.state.base;
    let backlog = |rtt: f64| path.packets() * (1.0 - base / rtt);
    let diff = backlog(rtt);
    // The smallest sample shows the persistent queue. The mean also contains the short queues that bursts cause in slow
    // start.
    let standing = backlog(path.state.smallest);
    if !path.slow_starts() {
        if diff >= path.state.alpha {
            update_alpha(group, at, rtt);
        }
        group.path_mut(at).step(diff, rtt);
    } else if standing > GAMMA {
        let target = (path.window() * base / rtt) as u64 + path.mss;
        path.decide(path.cwnd.min(target));
        path.lower_threshold();
    } else {
        path.grow(acked.min(path.mss));
    }
    let path = group.path_mut(at);
    if path.ssthresh != u64::MAX {
        path.set_ssthresh(path.ssthresh.max(path.cwnd / 4 * 3));
    }
}

impl Algorithm for WVegas {
    const NAME: &'static str = "wvegas";
    const PER_WINDOW: bool = false;
    type State = State;

    fn observe(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) {
        let path = group.path_mut(at);
        let Some(rtt) = ack.rtt else { return };
        let rtt = rtt.max(Duration::from_micros(1)).as_secs_f64();
        path.state.base = path.state.base.min(rtt);
        if !path.recovering {
            path.state.sampled += rtt;
            path.state.samples += 1;
            path.state.smallest = path.state.smallest.min(rtt);
        }
    }

    fn grow(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) {
        let path = group.path_mut(at);
        let state = &mut path.state;
        state.acked = state.acked.saturating_add(ack.acked);
        if ack.now >= state.round_end {
            state.round_end = ack.now + ack.rtt.or(ack.srtt).unwrap_or(Duration::ZERO);
            let acked = state.acked;
            if state.samples >= MIN_SAMPLES {
                decide(group, at, ack.acked);
            } else if path.slow_starts() {
                path.grow(ack.acked.min(path.mss));
            } else if path.full_window(acked) {
                path.grow(path.mss);
            }
            group.path_mut(at).state.restart_round();
        } else if path.slow_starts() {
            path.grow(ack.acked.min(path.mss));
        }
    }

    /// Returns no growth: [`grow`](Self::grow) changes the window, once per round trip.
    fn avoidance(&mut self, _group: &mut Group<State>, _at: usize, _ack: &Ack) -> f64 {
        0.0
    }

    fn threshold(&self, group: &Group<State>, at: usize) -> u64 {
        let path = group.path(at);
        half_window(path, MIN_PACKETS * path.mss)
    }

    fn react(&mut self, group: &mut Group<State>, at: usize, reaction: Reaction) {
        let state = &mut group.path_mut(at).state;
        state.restart_round();
        state.alpha = MIN_ALPHA;
        state.least_queue = 0.0;
        if reaction == Reaction::Timeout {
            state.rate = 0.0;
        }
    }

    fn undo(state: &mut State, before: State) {
        state.alpha = before.alpha;
        state.rate = before.rate;
        state.least_queue = before.least_queue;
    }

    fn rescale(state: &mut State, factor: f64) {
        // The backlogs are numbers of packets, which do not depend on the packet size.
        state.rate *= factor;
    }
}
