//! A congestion control that couples only those paths that share a bottleneck (RFC 8382).
//!
//! It wraps a coupled congestion control and a [`Detector`]. After each decision of the detector, each path gets the
//! mark of its bottleneck, which the sums of the coupled congestion control use. A path whose mark changes keeps its
//! window and all of its state. Only the set of paths with which it is coupled changes, and so its further growth.

use super::{
    Ack, CongestionControl, Idle, Loss, LostPacket, PathSetup, PenaltyInSlowStart, RateSample, Sent, Timeout,
};
use crate::PathId;
use crate::shared_bottleneck::{DelaySample, Detector, Grouping};
use anabranch_base::time::Time;
use anabranch_base::units::Rate;

/// A coupled congestion control with a detector of shared bottlenecks.
#[derive(Debug)]
pub(super) struct Shared {
    control: Box<dyn CongestionControl>,
    detector: Detector,
}

impl Shared {
    pub fn new(control: Box<dyn CongestionControl>) -> Self {
        Self { control, detector: Detector::default() }
    }
}

impl CongestionControl for Shared {
    fn name(&self) -> &'static str {
        self.control.name()
    }

    fn add_path(&mut self, path: PathId, setup: PathSetup) {
        self.detector.add(path);
        self.control.add_path(path, setup);
    }

    fn remove_path(&mut self, path: PathId) {
        self.detector.remove(path);
        self.control.remove_path(path);
    }

    fn set_usable(&mut self, path: PathId, usable: bool) {
        self.control.set_usable(path, usable);
    }

    fn set_mss(&mut self, path: PathId, mss: u32) {
        self.control.set_mss(path, mss);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.control.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.control.on_loss(loss);
    }

    fn on_recovered(&mut self, now: Time, path: PathId) {
        self.control.on_recovered(now, path);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.control.on_timeout(timeout);
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.control.on_idle(idle);
    }

    fn on_spurious(&mut self, now: Time, path: PathId) {
        self.control.on_spurious(now, path);
    }

    fn penalise(&mut self, now: Time, path: PathId, slow_start: PenaltyInSlowStart) {
        self.control.penalise(now, path, slow_start);
    }

    fn window(&self, path: PathId) -> u64 {
        self.control.window(path)
    }

    fn ssthresh(&self, path: PathId) -> u64 {
        self.control.ssthresh(path)
    }

    fn pacing_rate(&self, path: PathId) -> Option<Rate> {
        self.control.pacing_rate(path)
    }

    fn wants_rate_samples(&self) -> bool {
        self.control.wants_rate_samples()
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.control.on_sent(sent);
    }

    fn on_lost(&mut self, lost: &LostPacket) {
        self.control.on_lost(lost);
    }

    fn on_sample(&mut self, sample: &RateSample) {
        self.control.on_sample(sample);
    }

    fn wants_delay_samples(&self) -> bool {
        true
    }

    fn on_delay(&mut self, sample: &DelaySample) {
        if self.detector.sample(sample) {
            for (path, bottleneck) in self.detector.marks() {
                self.control.set_bottleneck(path, bottleneck);
            }
        }
    }

    fn set_bottleneck(&mut self, path: PathId, bottleneck: u16) {
        self.control.set_bottleneck(path, bottleneck);
    }

    fn grouping(&self, path: PathId) -> Option<Grouping> {
        self.detector.grouping(path)
    }

    fn measures_at_rest(&self, path: PathId) -> bool {
        self.control.measures_at_rest(path)
    }
}
