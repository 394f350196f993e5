//! The phases that all algorithms share: slow start, congestion avoidance, byte counting, recovery, timeouts, idle
//! restarts and penalties; and the handling of paths that are added, fail or are removed. An [`Algorithm`] contains
//! only the arithmetic.

use super::group::{Group, Path, ceil_bytes};
use super::{Ack, CongestionControl, Idle, Loss, LossKind, PathSetup, PenaltyInSlowStart, Rules, Timeout};
use crate::PathId;
use crate::shared_bottleneck::DelaySample;
use anabranch_base::time::Time;
use core::fmt::Debug;

/// The cause of a window reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// A loss that acknowledgements indicate.
    Retransmit,
    /// An ECN echo.
    Ecn,
    /// The first expiry of the retransmission timer for its data.
    Timeout,
    /// A restart after an idle time (RFC 5681 §4.1), or a penalty. There was no loss, but the window is no longer the
    /// one that the algorithm computed.
    Reset,
}

/// The arithmetic of one congestion control.
///
/// Each method gets all paths of the connection, and the index of the affected path, which exists.
pub trait Algorithm: Debug + Send {
    /// The name used in scenarios.
    const NAME: &'static str;

    /// True if congestion avoidance opens the window once per full window of acknowledged data, by a whole number of
    /// bytes, rounded up. False if it opens the window with each acknowledgement, by a real number of bytes.
    const PER_WINDOW: bool;

    /// True if Linux's implementation of the algorithm counts towards the next increase in a separate counter, which a
    /// loss does not reset. It matters only with `whole_packets`, which imitates Linux.
    const OWN_COUNT: bool = false;

    /// True if the algorithm uses the delays of its paths, so the caller must report them.
    const WANTS_DELAYS: bool = false;

    /// State of the algorithm for each path.
    type State: Clone + Debug + Send + Default;

    /// Processes an acknowledgement of new data, before the window reacts to it. Called even if the window does not
    /// change.
    fn observe(&mut self, group: &mut Group<Self::State>, at: usize, ack: &Ack) {
        let _ = (group, at, ack);
    }

    /// Processes a measured delay, before the acknowledgement from which it was measured. Called only if
    /// [`WANTS_DELAYS`](Self::WANTS_DELAYS) is true.
    fn delay(&mut self, group: &mut Group<Self::State>, at: usize, sample: &DelaySample) {
        let _ = (group, at, sample);
    }

    /// Returns the growth of the window in slow start, bytes.
    fn slow_start(&self, group: &Group<Self::State>, at: usize, acked: u64) -> u64 {
        group.path(at).slow_start_step(acked)
    }

    /// Returns the change of the window for `ack` in congestion avoidance, bytes. If [`PER_WINDOW`](Self::PER_WINDOW)
    /// is true, a full window has been acknowledged.
    fn avoidance(&mut self, group: &mut Group<Self::State>, at: usize, ack: &Ack) -> f64;

    /// Returns the new threshold after a loss, bytes. The caller applies the minimum of one packet.
    fn threshold(&self, group: &Group<Self::State>, at: usize) -> u64;

    /// Prepares the state for a reaction, before window and threshold change.
    fn react(&mut self, group: &mut Group<Self::State>, at: usize, reaction: Reaction) {
        let _ = (group, at, reaction);
    }

    /// Reverts a reaction that was spurious: changes the current state to that without the reaction. `before` is the
    /// state right before the reaction.
    fn undo(state: &mut Self::State, before: Self::State) {
        *state = before;
    }

    /// Multiplies the packet counts in the state by `factor`, because the packet size has changed.
    fn rescale(state: &mut Self::State, factor: f64) {
        let _ = (state, factor);
    }

    /// Updates the window of a path for an acknowledgement; the caller has checked that the window may grow.
    fn grow(&mut self, group: &mut Group<Self::State>, at: usize, ack: &Ack) {
        if group.path(at).slow_starts() {
            let bytes = self.slow_start(group, at, ack.acked);
            group.path_mut(at).grow(bytes);
        } else if !Self::PER_WINDOW {
            let bytes = self.avoidance(group, at, ack);
            group.path_mut(at).shift(bytes);
        } else if group.path_mut(at).full_window(ack.acked) {
            let bytes = self.avoidance(group, at, ack);
            group.path_mut(at).grow(ceil_bytes(bytes));
        }
    }
}

/// A complete congestion control: an algorithm with the common phases.
#[derive(Debug)]
pub struct Controller<A: Algorithm> {
    algorithm: A,
    group: Group<A::State>,
}

impl<A: Algorithm> Controller<A> {
    /// Creates a congestion control for a connection without paths.
    pub const fn new(algorithm: A) -> Self {
        Self { algorithm, group: Group::new() }
    }

    /// Lowers the threshold according to the algorithm, and the window with it.
    fn reduce(&mut self, at: usize, reaction: Reaction, in_flight: u64) {
        let path = self.group.path_mut(at);
        match reaction {
            // The timeout belongs to the loss that started the recovery, so the state before that loss is kept.
            Reaction::Timeout if path.recovering && path.undo.is_some() => {}
            Reaction::Retransmit | Reaction::Timeout => path.keep_for_undo(),
            Reaction::Ecn | Reaction::Reset => path.undo = None,
        }
        path.reduce_to_in_flight(in_flight);
        let threshold = self.algorithm.threshold(&self.group, at);
        self.algorithm.react(&mut self.group, at, reaction);
        let path = self.group.path_mut(at);
        path.set_ssthresh(threshold);
        path.set_window(path.ssthresh);
        path.restart_count(A::OWN_COUNT);
    }
}

impl<A: Algorithm> CongestionControl for Controller<A> {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn add_path(&mut self, path: PathId, setup: PathSetup) {
        self.group.insert(path.index(), Path::new(&setup));
    }

    fn remove_path(&mut self, path: PathId) {
        self.group.remove(path.index());
    }

    fn set_usable(&mut self, path: PathId, usable: bool) {
        if let Some(path) = self.group.get_mut(path.index()) {
            path.usable = usable;
        }
    }

    fn set_bottleneck(&mut self, path: PathId, bottleneck: u16) {
        if let Some(path) = self.group.get_mut(path.index()) {
            path.bottleneck = bottleneck;
        }
    }

    fn set_mss(&mut self, path: PathId, mss: u32) {
        if let Some(path) = self.group.get_mut(path.index()) {
            let mss = u64::from(mss.max(1));
            let factor = path.mss as f64 / mss as f64;
            A::rescale(&mut path.state, factor);
            if let Some(undo) = &mut path.undo {
                A::rescale(&mut undo.state, factor);
            }
            path.mss = mss;
            path.initial_window = path.initial_window.max(mss);
            path.set_window(path.cwnd);
            if path.ssthresh != u64::MAX {
                path.set_ssthresh(path.ssthresh);
            }
        }
    }

    fn wants_delay_samples(&self) -> bool {
        A::WANTS_DELAYS
    }

    fn on_delay(&mut self, sample: &DelaySample) {
        let at = sample.path.index();
        if A::WANTS_DELAYS && self.group.get(at).is_some() {
            self.algorithm.delay(&mut self.group, at, sample);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let at = ack.path.index();
        let Some(path) = self.group.get_mut(at) else { return };
        path.measure(ack);
        let grows = ack.cwnd_limited && ack.acked > 0 && path.usable && !path.recovering;
        self.algorithm.observe(&mut self.group, at, ack);
        if grows {
            self.algorithm.grow(&mut self.group, at, ack);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        let at = loss.path.index();
        match self.group.get(at) {
            // The window has already been reduced for the loss of data that is in flight.
            None | Some(Path { recovering: true, .. }) => return,
            Some(_) => {}
        }
        match loss.kind {
            LossKind::FastRetransmit => {
                self.reduce(at, Reaction::Retransmit, loss.in_flight);
                self.group.path_mut(at).recovering = true;
            }
            LossKind::Ecn => self.reduce(at, Reaction::Ecn, loss.in_flight),
        }
    }

    fn on_recovered(&mut self, _now: Time, path: PathId) {
        if let Some(path) = self.group.get_mut(path.index()) {
            (path.recovering, path.repairing) = (false, false);
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let at = timeout.path.index();
        let Some(path) = self.group.get(at) else { return };
        if !timeout.repeated || path.rules == Rules::Sctp {
            self.reduce(at, Reaction::Timeout, timeout.in_flight);
        }
        let path = self.group.path_mut(at);
        path.set_window(path.mss);
        path.restart_count(A::OWN_COUNT);
        path.recovering = false;
        path.repairing = true;
    }

    fn on_idle(&mut self, idle: &Idle) {
        let at = idle.path.index();
        if self.group.get(at).is_none() {
            return;
        }
        self.algorithm.react(&mut self.group, at, Reaction::Reset);
        let path = self.group.path_mut(at);
        path.undo = None;
        let restart = match path.rules {
            Rules::Tcp => path.initial_window,
            Rules::Sctp => {
                path.set_ssthresh(path.cwnd);
                path.cwnd.checked_shr(idle.timeouts).unwrap_or(0).max(path.floor())
            }
        };
        path.set_window(path.cwnd.min(restart));
        path.restart_count(A::OWN_COUNT);
    }

    fn on_spurious(&mut self, _now: Time, path: PathId) {
        let Some(path) = self.group.get_mut(path.index()) else { return };
        let Some(undo) = path.undo.take() else { return };
        path.set_window(path.cwnd.max(undo.cwnd));
        path.ssthresh = path.ssthresh.max(undo.ssthresh);
        (path.partial, path.fraction) = (undo.partial, undo.fraction);
        A::undo(&mut path.state, undo.state);
    }

    fn penalise(&mut self, _now: Time, path: PathId, slow_start: PenaltyInSlowStart) {
        let at = path.index();
        if self.group.get(at).is_none() {
            return;
        }
        self.algorithm.react(&mut self.group, at, Reaction::Reset);
        let path = self.group.path_mut(at);
        path.undo = None;
        if slow_start == PenaltyInSlowStart::Bounded && path.ssthresh > path.cwnd {
            path.set_ssthresh(path.cwnd);
        } else if path.ssthresh != u64::MAX {
            path.set_ssthresh(path.ssthresh / 2);
        }
        path.set_window(path.cwnd / 2);
        path.restart_count(A::OWN_COUNT);
    }

    fn window(&self, path: PathId) -> u64 {
        self.group.get(path.index()).map_or(0, |path| path.cwnd)
    }

    fn ssthresh(&self, path: PathId) -> u64 {
        self.group.get(path.index()).map_or(u64::MAX, |path| path.ssthresh)
    }
}
