//! LEDBAT on each path independently (RFC 6817): a background transfer that leaves the capacity to other flows as soon as
//! they build a queue.
//!
//! With the queueing delay q = current − base of the path's one-way delay and a target of 100 ms, every acknowledgement
//! changes the window by gain·(target − q)/target·acked·MSS/w (§2.4.2), down to 2 packets. So the window grows by at
//! most a packet per round trip, without slow start, and is stable with a queue of 100 ms. The base delay is the
//! smallest of the last 10 minutes, in steps of a minute (§2.4.2, BASE_HISTORY); the current delay is the smallest of
//! the last 4 samples (CURRENT_FILTER). Loss as Reno, at least 2 packets.
//!
//! Delays are one-way differences of TCP's timestamps (RFC 7323), of milliseconds; the unknown offset of the clocks is in
//! both delays. Without timestamps, and for SCTP, they are round trips, which include queues on the way back.

use super::controller::{Algorithm, Controller};
use super::group::Group;
use super::reno::half_window;
use super::{Ack, Entry, Signal};
use crate::shared_bottleneck::{DelaySample, RelativeDelay};
use anabranch_base::time::{Duration, Time};

/// The entry of this control in the table of controls.
pub(super) const ENTRY: Entry = Entry {
    name: Ledbat::NAME,
    aliases: &[],
    summary: "a background transfer: keeps a queue of 100 ms, and yields to other flows",
    source: "RFC 6817",
    coupled: false,
    signal: Signal::Delay,
    build: &|_| Box::new(Controller::new(Ledbat)),
};

/// Queueing delay that the control aims at, seconds.
const TARGET: f64 = 0.1;
/// Packets by which the window grows per round trip without a queue.
const GAIN: f64 = 1.0;
/// Smallest window after a decision, packets.
const MIN_PACKETS: u64 = 2;
/// Length of a step of the history of base delays.
const STEP: Duration = Duration::from_secs(60);
/// Steps of the history.
const STEPS: usize = 10;
/// Samples of which the smallest is the current delay.
const FILTER: usize = 4;

#[derive(Debug)]
struct Ledbat;

#[derive(Clone, Debug)]
struct State {
    /// The first one-way delay, milliseconds, to which the others are relative; `None` without timestamps.
    reference: Option<u32>,
    /// The smallest delay of each step, seconds; the present step is the first.
    base: [f64; STEPS],
    /// When the present step ends.
    step_end: Time,
    /// The last delays, seconds, the newest at `newest`.
    current: [f64; FILTER],
    newest: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            reference: None,
            base: [f64::INFINITY; STEPS],
            step_end: Time::ZERO,
            current: [f64::INFINITY; FILTER],
            newest: 0,
        }
    }
}

impl State {
    /// Adds a delay, seconds.
    fn add(&mut self, now: Time, delay: f64) {
        if now >= self.step_end {
            // After a pause that is longer than the history, all of it is too old.
            let passed = now.since(self.step_end).as_nanos() / STEP.as_nanos() + 1;
            let passed = usize::try_from(passed).unwrap_or(STEPS).min(STEPS);
            self.base.rotate_right(passed % STEPS);
            self.base[..passed].fill(f64::INFINITY);
            self.step_end = now + STEP;
        }
        self.base[0] = self.base[0].min(delay);
        self.newest = (self.newest + 1) % FILTER;
        self.current[self.newest] = delay;
    }

    /// Queueing delay, seconds; `None` before the first sample.
    fn queue(&self) -> Option<f64> {
        let least = |delays: &[f64]| delays.iter().copied().fold(f64::INFINITY, f64::min);
        let (base, current) = (least(&self.base), least(&self.current));
        current.is_finite().then(|| (current - base).max(0.0))
    }
}

impl Algorithm for Ledbat {
    const NAME: &'static str = "ledbat";
    const PER_WINDOW: bool = false;
    const WANTS_DELAYS: bool = true;
    type State = State;

    fn delay(&mut self, group: &mut Group<State>, at: usize, sample: &DelaySample) {
        let state = &mut group.path_mut(at).state;
        let RelativeDelay::OneWay(millis) = sample.delay else { return };
        let reference = *state.reference.get_or_insert(millis);
        // Serial arithmetic: the clocks' difference wraps.
        let relative = f64::from(millis.wrapping_sub(reference).cast_signed()) / 1e3;
        state.add(sample.now, relative);
    }

    fn observe(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) {
        let state = &mut group.path_mut(at).state;
        if let Some(rtt) = ack.rtt.filter(|_| state.reference.is_none()) {
            state.add(ack.now, rtt.as_secs_f64());
        }
    }

    /// LEDBAT has no slow start: the formula of congestion avoidance holds from the first acknowledgement on.
    fn grow(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) {
        let bytes = self.avoidance(group, at, ack);
        let path = group.path_mut(at);
        let least = (MIN_PACKETS * path.mss) as f64;
        // A window that a timeout has made smaller than the minimum does not shrink.
        path.shift(bytes.max((least - path.window()).min(0.0)));
    }

    fn avoidance(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) -> f64 {
        let path = group.path(at);
        let Some(queue) = path.state.queue() else { return 0.0 };
        let off_target = (TARGET - queue) / TARGET;
        // An acknowledgement of more than a window counts as one window.
        let part = (ack.acked as f64 / path.window()).min(1.0);
        GAIN * off_target * part * path.mss as f64
    }

    fn threshold(&self, group: &Group<State>, at: usize) -> u64 {
        let path = group.path(at);
        half_window(path, MIN_PACKETS * path.mss)
    }

    /// Delays do not depend on the reaction.
    fn undo(_state: &mut State, _before: State) {}
}
