//! BBR version 3 on each path independently (draft-ietf-ccwg-bbr, the working group's text of August 2026).
//!
//! Each path has a model of its network: the highest delivery rate of the last two probing cycles and the lowest
//! round-trip time of the last ten seconds, with bounds that result from losses. The pacing rate is the delivery rate
//! times the gain of the state; the window is a multiple of the product of delivery rate and round-trip time. Losses
//! below 2 % of the data in flight have no effect while the path probes for bandwidth. A single loss never reduces the
//! rate.
//!
//! ```text
//! Startup → Drain → Down → Cruise → Refill → Up ⤴ Down        every 5 s without a lower round-trip time:
//!  2.77      0.5     0.9      1        1     1.25              any state → ProbeRtt → Cruise or Startup
//! ```
//!
//! [`model`] contains rates, round-trip times, rounds and bounds; [`machine`] contains the states; [`control`] computes
//! pacing rate and window. Names are those of the draft, except that the draft's state `ProbeBW_X` is called `X` here.
//!
//! Choices that the draft leaves open:
//! - *Randomness*: the time of a probe is derived from a hash of the path's number, the time and the bytes
//!   delivered. It needs no seed and is the same in every run. It differs between flows, since no two receive
//!   their acknowledgements in the same nanosecond with the same history.
//! - *ECN*: the draft only requires that a CE mark is a congestion signal. Here, an echo has its effect in the round in
//!   which it arrives: it ends Startup and a probe like too many losses, and otherwise lowers the short-term
//!   bounds.
//! - *After a timeout* the window is one packet. Where the draft uses the window as a measure (for the waiting time
//!   before a probe, and for the minimum of a bound), the window before the timeout is used until the lost data has been
//!   repaired. Otherwise, a path that lost a retransmission would probe at once with a very small window, and would store
//!   the result as the limit of the network.
//! - *Loss in Startup*: each acknowledgement that marks losses counts as one range of lost packets.
//! - *Segmentation offload*: the transports in this project do not use it, so the offload budget is one quantum, as in
//!   the draft for QUIC.
//! - *Samples without a rate*, because they are shorter than any round trip, do not count as rounds without growth:
//!   they contain no information about the rate.
//! - A rate below one packet a second is paced at one packet a second: an error of the
//!   model must not stop the path.
//! - A *penalty* by the caller halves the window and bounds the data in flight by it until the next probe.

mod control;
mod machine;
mod model;
#[cfg(test)]
mod tests;

use super::{
    Ack, CongestionControl, Entry, Idle, Loss, LossKind, LostPacket, PathSetup, PenaltyInSlowStart,
    RateSample, Sent, Signal, Timeout,
};
use crate::PathId;
use anabranch_base::time::Time;
use anabranch_base::units::Rate;
use machine::Path;

/// The entry of this algorithm in the table of congestion controls.
pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    aliases: &["bbr3"],
    summary: "a model of each path: paces at its delivery rate and keeps the queue short",
    source: "draft-ietf-ccwg-bbr",
    coupled: false,
    signal: Signal::Model,
    build: &|_| Box::new(Bbr::default()),
};

const NAME: &str = "bbr";

/// BBR for all paths of a connection, each independent of the others.
#[derive(Debug, Default)]
struct Bbr {
    paths: Vec<Option<Box<Path>>>,
}

impl Bbr {
    fn get(&self, path: PathId) -> Option<&Path> {
        self.paths.get(path.index())?.as_deref()
    }

    fn get_mut(&mut self, path: PathId) -> Option<&mut Path> {
        self.paths.get_mut(path.index())?.as_deref_mut()
    }
}

impl CongestionControl for Bbr {
    fn name(&self) -> &'static str {
        NAME
    }

    fn add_path(&mut self, path: PathId, setup: PathSetup) {
        if self.paths.len() <= path.index() {
            self.paths.resize_with(path.index() + 1, || None);
        }
        self.paths[path.index()] = Some(Box::new(Path::new(path, &setup)));
    }

    fn remove_path(&mut self, path: PathId) {
        if let Some(slot) = self.paths.get_mut(path.index()) {
            *slot = None;
        }
    }

    fn set_usable(&mut self, path: PathId, usable: bool) {
        if let Some(path) = self.get_mut(path) {
            path.usable = usable;
        }
    }

    fn set_mss(&mut self, path: PathId, mss: u32) {
        if let Some(path) = self.get_mut(path) {
            path.set_mss(u64::from(mss.max(1)));
        }
    }

    /// Has no effect, because samples contain all information that BBR uses.
    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_loss(&mut self, loss: &Loss) {
        if let Some(path) = self.get_mut(loss.path) {
            match loss.kind {
                LossKind::FastRetransmit => path.enter_recovery(),
                LossKind::Ecn => path.on_mark(loss.now),
            }
        }
    }

    fn on_recovered(&mut self, _now: Time, path: PathId) {
        if let Some(path) = self.get_mut(path) {
            path.leave_recovery();
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if let Some(path) = self.get_mut(timeout.path) {
            path.on_timeout();
        }
    }

    /// Has no effect: the model is kept during an idle time, and [`on_sent`](Self::on_sent) handles the restart.
    fn on_idle(&mut self, _idle: &Idle) {}

    fn on_spurious(&mut self, _now: Time, path: PathId) {
        if let Some(path) = self.get_mut(path) {
            path.undo();
        }
    }

    fn penalise(&mut self, _now: Time, path: PathId, _: PenaltyInSlowStart) {
        if let Some(path) = self.get_mut(path) {
            path.penalise();
        }
    }

    fn window(&self, path: PathId) -> u64 {
        self.get(path).map_or(0, Path::window)
    }

    /// Returns the maximum, because BBR has no slow-start threshold.
    fn ssthresh(&self, _path: PathId) -> u64 {
        u64::MAX
    }

    fn pacing_rate(&self, path: PathId) -> Option<Rate> {
        self.get(path).map(Path::pacing)
    }

    fn wants_rate_samples(&self) -> bool {
        true
    }

    fn on_sent(&mut self, sent: &Sent) {
        if let Some(path) = self.get_mut(sent.path) {
            path.on_sent(sent);
        }
    }

    fn on_lost(&mut self, lost: &LostPacket) {
        if let Some(path) = self.get_mut(lost.path) {
            path.on_lost(lost);
        }
    }

    fn on_sample(&mut self, sample: &RateSample) {
        if let Some(path) = self.get_mut(sample.path) {
            path.on_sample(sample);
        }
    }

    fn measures_at_rest(&self, path: PathId) -> bool {
        self.get(path).is_some_and(Path::is_probing_rtt)
    }
}
