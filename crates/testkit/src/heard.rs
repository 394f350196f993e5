//! A scheduler for tests that counts the events which transports report to it.

use anabranch_base::time::Time;
use anabranch_multipath::scheduler::{Decision, Offer, PathState, Scheduler, eligible};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Sends all data on the first eligible path, and counts events. Clones share their counters.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    blocked: Arc<AtomicU64>,
    reinjections: Arc<AtomicU64>,
}

impl Heard {
    /// Returns how often a full buffer was reported.
    pub fn blocked(&self) -> u64 {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Returns how many reinjected packets were reported.
    pub fn reinjections(&self) -> u64 {
        self.reinjections.load(Ordering::Relaxed)
    }
}

impl Scheduler for Heard {
    fn name(&self) -> &'static str {
        "heard"
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        let first = paths.iter().find(|path| !offer.is_empty() && eligible(path, paths));
        first.map_or(Decision::Wait, |path| Decision::Send(path.id))
    }

    fn on_reinjection(&mut self, _: Time, path: &PathState, (start, end): (u64, u64)) {
        assert!(eligible(path, &[*path]) && start < end, "{path:?} gets {start}..{end}");
        self.reinjections.fetch_add(1, Ordering::Relaxed);
    }

    fn on_blocked(&mut self) {
        self.blocked.fetch_add(1, Ordering::Relaxed);
    }
}
