//! BLEST, blocking estimation. A slower path gets a packet only if the faster path can still use its whole congestion
//! window meanwhile: the packet, and the data in flight on the slower path, must leave enough of the send window
//! (Ferlin et al. 2016, §III).
//!
//! While a packet is in flight on the slower path S, for RTT_S, the fastest path F sends X = MSS_F · (CWND_F + (r −
//! 1)/2) · r bytes. Here r = RTT_S/RTT_F, and the window of F grows by a packet per round trip. S is used if λ·X fits
//! into the part of the send window that S leaves free; otherwise the packet waits for F. λ corrects the estimate once
//! per RTT_S: it grows if the send window has been full, which the estimate should have prevented, and shrinks
//! otherwise. Its bounds and steps are those of the authors' implementation for Linux.

use super::pair::{Pair, pair};
use super::{Decision, Entry, Offer, PathState, Scheduler};
use anabranch_base::time::{Duration, Time};

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "blest",
    summary: "a slower path only where that will not block the fastest one by a full send window",
    source: "Ferlin et al., BLEST: Blocking Estimation-based MPTCP Scheduler for Heterogeneous Networks, IFIP Networking 2016",
    wants_rates: false,
    places: false,
    wants_information: false,
    build: &|| Box::new(Blest { lambda: 1.2, updated: Time::ZERO, blocked: false }),
};

/// Bounds of λ.
const LAMBDA: (f64, f64) = (1.0, 1.3);
/// Increase of λ after a round trip in which the send window was full, and decrease after any other round trip.
const STEPS: (f64, f64) = (0.04, 0.01);

#[derive(Debug)]
struct Blest {
    /// The factor λ, which corrects the estimate.
    lambda: f64,
    /// Time at which λ was last corrected.
    updated: Time,
    /// True if the send window has been full since `updated`.
    blocked: bool,
}

impl Blest {
    /// Corrects λ, once per round trip of the slower path.
    fn correct(&mut self, now: Time, round_trip: Duration) {
        if now.since(self.updated) < round_trip {
            return;
        }
        let lambda = if self.blocked { self.lambda + STEPS.0 } else { self.lambda - STEPS.1 };
        self.lambda = lambda.clamp(LAMBDA.0, LAMBDA.1);
        (self.updated, self.blocked) = (now, false);
    }
}

/// Returns X, the number of bytes that the fast path sends during a round trip of the slow path.
fn sent_meanwhile(fast: &PathState, ratio: f64) -> f64 {
    (fast.cwnd as f64 + f64::from(fast.mss) * (ratio - 1.0) / 2.0) * ratio
}

impl Scheduler for Blest {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        let Pair { slow, fast, slow_rtt, fast_rtt } = match pair(offer, paths) {
            Ok(pair) => pair,
            Err(decision) => return decision,
        };
        self.correct(offer.now, slow_rtt);
        let ratio = slow_rtt.as_secs_f64() / fast_rtt.as_secs_f64().max(1e-9);
        let left = offer.send_window.saturating_sub(slow.outstanding + u64::from(slow.mss));
        if sent_meanwhile(fast, ratio) * self.lambda <= left as f64 {
            Decision::Send(slow.id)
        } else {
            Decision::Wait
        }
    }

    fn on_blocked(&mut self) {
        self.blocked = true;
    }
}
