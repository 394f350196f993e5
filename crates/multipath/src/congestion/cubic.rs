//! CUBIC on each path independently (RFC 9438), with its Reno-friendly region and fast convergence.
//!
//! Windows are in packets. After a loss at W_max, the window follows W(t) = C·(t − K)³ + W_max with K = ∛((W_max −
//! w)/C), where t counts from the start of the congestion avoidance stage. Each acknowledged packet adds (W(t + RTT) −
//! w)/w, where W(t + RTT) is limited to [w, 1.5·w]. The window is never below that of Reno with the same reduction:
//! W_est += α/w per acknowledged packet. Loss: s = max(β·c, minimum threshold) with β = 0.7. A loss below the last
//! W_max sets W_max = w·(1 + β)/2, so that new flows get capacity.
//!
//! While the round-trip time is unknown, the target is W(t). The time t excludes periods in which the window was not
//! fully used.

use super::controller::{Algorithm, Controller, Reaction};
use super::group::{Group, Path};
use super::{Ack, Entry, Signal};
use anabranch_base::time::Time;

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: Cubic::NAME,
    aliases: &[],
    summary: "cubic growth in time towards the window of the last loss",
    source: "RFC 9438",
    coupled: false,
    signal: Signal::Loss,
    build: &|_| Box::new(Controller::new(Cubic)),
};

/// The constant C, packets per second cubed (RFC 9438 §5.1).
const C: f64 = 0.4;
/// The factor by which a loss reduces the window, as a fraction of integers (RFC 9438 §4.6).
const BETA: (u64, u64) = (7, 10);
/// β as a real number.
const BETA_REAL: f64 = 0.7;
/// The additive increase with which Reno with β is as aggressive as Reno with ½ (RFC 9438 §4.3): 3·(1 − β)/(1 + β).
const ALPHA: f64 = 3.0 * (1.0 - BETA_REAL) / (1.0 + BETA_REAL);

#[derive(Debug)]
struct Cubic;

/// One congestion avoidance stage.
#[derive(Clone, Debug)]
struct Epoch {
    /// Start of the stage, moved forward by the time in which the window was not fully used.
    start: Time,
    /// Seconds from the start to the plateau.
    k: f64,
    /// Height of the plateau, packets.
    plateau: f64,
    /// Window that Reno would have, packets.
    reno: f64,
}

impl Epoch {
    /// Returns W(t) in packets; t is in seconds.
    fn window(&self, t: f64) -> f64 {
        let d = t - self.k;
        C * d * d * d + self.plateau
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Window before the last loss, lowered by fast convergence, packets.
    w_max: f64,
    /// Window before the last loss, packets.
    prior: f64,
    /// True if the next stage takes the current window as its plateau, because there was no loss before it, or there
    /// was a timeout (RFC 9438 §4.8).
    level: bool,
    epoch: Option<Epoch>,
    /// Arrival time of the last acknowledgement.
    last_ack: Time,
}

impl State {
    /// Starts the stage at window `w`, or continues it.
    fn stage(&mut self, now: Time, w: f64) -> &mut Epoch {
        let (level, w_max) = (self.level, self.w_max);
        self.epoch.get_or_insert_with(|| {
            if level || w >= w_max {
                Epoch { start: now, k: 0.0, plateau: w, reno: w }
            } else {
                Epoch { start: now, k: libm::cbrt((w_max - w) / C), plateau: w_max, reno: w }
            }
        })
    }
}

impl Algorithm for Cubic {
    const NAME: &'static str = "cubic";
    const PER_WINDOW: bool = false;
    type State = State;

    fn observe(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) {
        let state = &mut group.path_mut(at).state;
        if let Some(epoch) = state.epoch.as_mut().filter(|_| !ack.cwnd_limited) {
            // RFC 9438 §5.8: without this, the window would jump when the application resumes sending.
            epoch.start += ack.now.since(state.last_ack);
        }
        state.last_ack = ack.now;
    }

    fn avoidance(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) -> f64 {
        let path = group.path_mut(at);
        let (w, mss) = (path.packets(), path.mss as f64);
        let rtt = if path.measured() { 1.0 / path.per_rtt } else { 0.0 };
        // The acknowledged packets, relative to the window. Divisions dominate the cost of this function, so it has
        // only three.
        let part = ack.acked as f64 / path.window();
        let prior = path.state.prior;
        let epoch = path.state.stage(ack.now, w);
        let t = ack.now.since(epoch.start).as_nanos() as f64 * 1e-9;
        epoch.reno += part * if epoch.reno >= prior { 1.0 } else { ALPHA };
        let step = if epoch.window(t) < epoch.reno {
            (epoch.reno - w).max(0.0)
        } else {
            (epoch.window(t + rtt).clamp(w, 1.5 * w) - w) * part
        };
        step * mss
    }

    fn threshold(&self, group: &Group<State>, at: usize) -> u64 {
        let path = group.path(at);
        (path.cwnd * BETA.0 / BETA.1).max(path.floor())
    }

    fn react(&mut self, group: &mut Group<State>, at: usize, reaction: Reaction) {
        let path: &mut Path<State> = group.path_mut(at);
        let w = path.packets();
        let state = &mut path.state;
        state.epoch = None;
        if reaction != Reaction::Reset {
            state.w_max = if w < state.w_max { w * (1.0 + BETA_REAL) / 2.0 } else { w };
            state.prior = w;
            state.level = reaction == Reaction::Timeout;
        }
    }

    /// Continues the stage as if there had been no loss. The time since the loss counts, because the cubic function
    /// depends on time.
    fn undo(state: &mut State, before: State) {
        let last_ack = state.last_ack;
        *state = State { last_ack, ..before };
    }

    fn rescale(state: &mut State, factor: f64) {
        state.w_max *= factor;
        state.prior *= factor;
        // A new stage starts at the current window, because the old one counts packets of another size.
        state.epoch = None;
    }
}
