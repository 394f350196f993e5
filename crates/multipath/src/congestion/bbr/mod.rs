//! BBR version 3 on each path by itself (draft-ietf-ccwg-bbr, the working group's text of August 2026).
//!
//! Each path has a model of its network: the highest delivery rate of the last two probing cycles and the lowest
//! round-trip time of the last ten seconds, with bounds that losses teach. Packets are paced at the rate times the gain
//! of the state; the window is a multiple of the product of both. Losses below 2 % of what is in flight change nothing
//! while the path probes for bandwidth, and no single loss ever cuts the rate.
//!
//! ```text
//! Startup → Drain → Down → Cruise → Refill → Up ⤴ Down        every 5 s without a lower round-trip time:
//!  2.77      0.5     0.9      1        1     1.25              any state → ProbeRtt → Cruise or Startup
//! ```
//!
//! [`model`] keeps rates, round-trip times, rounds and bounds; [`machine`] has the states; [`control`] makes pacing rate
//! and window of them. Names are those of the draft, except that what the draft calls `ProbeBW_X` is `X` here.
//!
//! Where the draft leaves a choice:
//! - *Randomness*: when to probe is drawn by a hash of the path's number, the time and the bytes delivered. It needs no
//!   seed, is the same in every run, and differs between flows, for no two see their acknowledgements in the same
//!   nanosecond with the same history.
//! - *ECN*: the draft says no more than that a CE mark is congestion. An echo is one here for the round in which it comes: it
//!   ends Startup and a probe like too many losses, and otherwise lowers the short-term bounds.
//! - *After a timeout* the window is one packet, and until what was lost is repaired the window before it counts wherever the
//!   draft measures by the window: how long to wait for a probe, and how low a bound may fall. Else a path that lost a
//!   retransmission would probe at once, from nothing, and take what it finds there for the network's limit.
//! - *Loss in Startup*: each acknowledgement that marks losses counts as one range of lost packets.
//! - *Offload*: these transports have none, and the budget for it is one quantum, as the draft has it for QUIC.
//! - *Samples without a rate* (shorter than any round trip) are no round without growth: they say nothing of the rate.
//! - A rate below one packet a second is paced as that: a model that is this wrong must not stop the path.
//! - A *penalty* of the owner halves the window, and bounds what is in flight by it until the next probe.

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

/// The line of the table.
pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    aliases: &["bbr3"],
    summary: "a model of each path: paces at its delivery rate and keeps the queue short",
    source: "draft-ietf-ccwg-bbr",
    coupled: false,
    signal: Signal::Model,
    build: |_| Box::new(Bbr::default()),
};

const NAME: &str = "bbr";

/// The paths of one connection, each by itself.
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

    /// Everything is in the samples.
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

    /// The model outlives an idle time; [`on_sent`](Self::on_sent) sees the restart.
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

    /// There is none.
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
