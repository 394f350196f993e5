//! ECF, earliest completion first: if the fastest path has no room, waits for it if all remaining data would then be
//! complete sooner (Lim et al. 2017, algorithm 1).
//!
//! k is the number of bytes to send. The fastest path f needs about n = 1 + k/CWND_f round trips for these bytes and
//! the packet. The best other path s needs at least RTT_s. The scheduler waits, and s gets no data, if n·RTT_f < (1 +
//! β)(RTT_s + δ) and s would need at least 2·RTT_f + δ for the same bytes. δ, the larger of both deviations, is a
//! margin against jitter. β is zero except while the scheduler waits, which avoids oscillation. k is at least a whole
//! window, as in the authors' implementation for Linux, because the minimum duration is a round trip.

use super::pair::{Pair, pair};
use super::{Decision, Entry, Offer, PathState, Scheduler};

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "ecf",
    summary: "waits for the fastest path where that completes the transfer sooner than a slower one would",
    source: "Lim et al., ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths, CoNEXT 2017",
    wants_rates: false,
    places: false,
    wants_information: false,
    build: &|| Box::new(Ecf { waiting: false }),
};

/// β while the scheduler waits, the hysteresis.
const BETA: f64 = 0.25;

#[derive(Debug)]
struct Ecf {
    /// True if the last decision between two paths was to wait for the faster one.
    waiting: bool,
}

impl Scheduler for Ecf {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        let Pair { slow, fast, slow_rtt, fast_rtt } = match pair(offer, paths) {
            Ok(pair) => pair,
            Err(decision) => return decision,
        };
        let (slow_rtt, fast_rtt) = (slow_rtt.as_secs_f64(), fast_rtt.as_secs_f64());
        let margin = slow.rtt_variation.max(fast.rtt_variation).as_secs_f64();
        let rounds = |path: &PathState| (offer.bytes as f64 / path.cwnd.max(1) as f64).max(1.0);
        let hysteresis = if self.waiting { 1.0 + BETA } else { 1.0 };
        if (1.0 + rounds(fast)) * fast_rtt < hysteresis * (slow_rtt + margin) {
            if rounds(slow) * slow_rtt >= 2.0 * fast_rtt + margin {
                self.waiting = true;
                return Decision::Wait;
            }
        } else {
            self.waiting = false;
        }
        Decision::Send(slow.id)
    }
}
