//! LEDBAT on each path independently (RFC 6817): a background transfer that leaves the capacity to other flows as soon as
//! they build a queue.
//!
//! q = current − base is the queueing delay of the path, from its one-way delay; the target is 100 ms. Each
//! acknowledgement changes the window by gain·(target − q)/target·acked·MSS/w (§2.4.2); the minimum is 2 packets. So
//! the window grows by at most a packet per round trip, without slow start, and is stable when the queue is 100 ms
//! long. The base delay is the smallest of the last 10 minutes, in steps of a minute (§2.4.2, BASE_HISTORY). The
//! current delay is the smallest of the last 4 samples (CURRENT_FILTER). A loss reduces the window as in Reno, to at
//! least 2 packets.
//!
//! Delays are differences of TCP's timestamps (RFC 7323), which are in milliseconds. The unknown offset
//! between the clocks is in both delays, so it cancels. Without timestamps, and for SCTP, delays are
//! round-trip times, which include queues on the return path.

use super::controller::{Algorithm, Controller};
use super::group::Group;
use super::reno::half_window;
use super::{Ack, Entry, Signal};
use crate::shared_bottleneck::{DelaySample, RelativeDelay};
use anabranch_base::time::{Duration, Time};

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: Ledbat::NAME,
    aliases: &[],
    summary: "a background transfer: keeps a queue of 100 ms, and yields to other flows",
    source: "RFC 6817",
    coupled: false,
    signal: Signal::Delay,
    build: &|_| Box::new(Controller::new(Ledbat)),
};

/// Queueing delay at which the window stays constant, seconds.
const TARGET: f64 = 0.1;
/// Number of packets by which the window grows per round trip if there is no queue.
const GAIN: f64 = 1.0;
/// Minimum window, packets.
const MIN_PACKETS: u64 = 2;
/// Length of one step of the history of base delays.
const STEP: Duration = Duration::from_secs(60);
/// Number of steps in the history of base delays.
const STEPS: usize = 10;
/// Number of samples; the smallest of them is the current delay.
const FILTER: usize = 4;

#[derive(Debug)]
struct Ledbat;

#[derive(Clone, Debug)]
struct State {
    /// The first one-way delay, milliseconds. The other delays are relative to it. `None` without timestamps.
    reference: Option<u32>,
    /// The smallest delay of each step, seconds. The current step comes first.
    base: [f64; STEPS],
    /// Time at which the current step ends.
    step_end: Time,
    /// The last delays, seconds.
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
            // After a pause longer than the history, all its steps are too old.
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

    /// Returns the queueing delay, seconds; `None` before the first sample.
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
        // Serial number arithmetic, because the difference of the clocks wraps.
        let relative = f64::from(millis.wrapping_sub(reference).cast_signed()) / 1e3;
        state.add(sample.now, relative);
    }

    fn observe(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) {
        let state = &mut group.path_mut(at).state;
        if let Some(rtt) = ack.rtt.filter(|_| state.reference.is_none()) {
            state.add(ack.now, rtt.as_secs_f64());
        }
    }

    /// Applies the formula of congestion avoidance from the first acknowledgement on, because LEDBAT has no slow start.
    fn grow(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) {
        let bytes = self.avoidance(group, at, ack);
        let path = group.path_mut(at);
        let least = (MIN_PACKETS * path.mss) as f64;
        // If a timeout has made the window smaller than the minimum, the window does not shrink further.
        path.shift(bytes.max((least - path.window()).min(0.0)));
    }

    fn avoidance(&mut self, group: &mut Group<State>, at: usize, ack: &Ack) -> f64 {
        let path = group.path(at);
        let Some(queue) = path.state.queue() else { return 0.0 };
        let off_target = (TARGET - queue) / TARGET;
        // An acknowledgement of more than a window counts as one of a whole window.
        let part = (ack.acked as f64 / path.window()).min(1.0);
        GAIN * off_target * part * path.mss as f64
    }

    fn threshold(&self, group: &Group<State>, at: usize) -> u64 {
        let path = group.path(at);
        half_window(path, MIN_PACKETS * path.mss)
    }

    /// Keeps the state, because delays do not depend on the reaction.
    fn undo(_state: &mut State, _before: State) {}
}
