//! State of RACK-TLP (RFC 8985): loss detection by time instead of by counting, and tail loss probes. `time_based.rs`
//! applies it to a connection.
//!
//! A queue contains the segments in the order of their last transmissions. Detection examines only its head, so each
//! segment costs one look-up, whether it is lost, delivered or sent again.

use anabranch_base::time::{Duration, Time};
use anabranch_multipath::rtt::RttEstimator;
use std::collections::VecDeque;

/// An unanswered tail loss probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub end: u64,
    pub retransmission: bool,
}

/// State of RACK and TLP. Until it is enabled, only the order of arrivals is recorded.
#[derive(Debug)]
pub(super) struct Rack {
    enabled: bool,
    /// The latest-sent segment that is known to have arrived: time of transmission, and end.
    pub newest: (Time, u64),
    pub rtt: Duration,
    /// Highest end of a delivered segment.
    forward: u64,
    pub reordering: bool,
    /// Reordering window, in quarters of the minimum round-trip time.
    pub quarters: u64,
    /// Remaining recoveries before the reordering window is reset.
    persist: u32,
    duplicate_until: u64,
    /// (Last transmission, start), oldest first. Entries of segments that were sent again or acknowledged are stale.
    pub order: VecDeque<(Time, u64)>,
    pub reordering_timer: Option<Time>,
    pub probe_timer: Option<Time>,
    pub probe: Option<Probe>,
}

impl Rack {
    pub fn new() -> Self {
        Self {
            enabled: false,
            newest: (Time::ZERO, 0),
            rtt: Duration::ZERO,
            forward: 0,
            reordering: false,
            quarters: 1,
            persist: 0,
            duplicate_until: 0,
            order: VecDeque::new(),
            reordering_timer: None,
            probe_timer: None,
            probe: None,
        }
    }

    /// Enables RACK-TLP if SACK, which it requires, was negotiated (RFC 8985 §4).
    pub fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Queues segments that were marked lost and are in flight after all: send time and position of each, oldest
    /// first. All were sent before those in the queue, because only older segments are marked lost.
    pub fn restored(&mut self, segments: Vec<(Time, u64)>) {
        if self.enabled {
            segments.into_iter().rev().for_each(|segment| self.order.push_front(segment));
        }
    }

    /// A segment was sent (again).
    pub fn sent(&mut self, now: Time, start: u64) {
        if self.enabled {
            self.order.push_back((now, start));
        }
    }

    /// Records a segment that is newly known to have arrived (RFC 8985 §6.2 steps 1 to 3).
    pub fn delivered(&mut self, now: Time, (sent, end, again): (Time, u64, bool), rtt: &RttEstimator) {
        let sample = now.since(sent);
        // The acknowledgement arrives sooner than a round trip after the retransmission, so the original has arrived.
        if again && sample < rtt.min_rtt() {
            return;
        }
        if end >= self.forward {
            self.forward = end;
        } else if !again {
            self.reordering = true;
        }
        if self.enabled {
            self.rtt = sample;
            self.newest = self.newest.max((sent, end));
        }
    }

    /// Records the start of the first newly acknowledged segment that was sent only once. If a segment behind it had arrived
    /// before, the path reorders (RFC 8985 §6.2 step 3).
    pub fn note_order(&mut self, original: Option<u64>) {
        self.reordering |= original.is_some_and(|start| start < self.forward);
    }

    /// Sets the round-trip time to that of a segment which was acknowledged cumulatively. Of all segments that one
    /// acknowledgement reports, the last in sequence gives the sample, as in Linux (`tcp_rack_advance`); RFC 8985 §6.2
    /// step 2 takes the one that was sent last. A segment that had waited for a retransmission prolongs the sample, so
    /// that the segments sent with it are not marked lost together with this acknowledgement.
    pub fn sample(&mut self, now: Time, (sent, again): (Time, bool), rtt: &RttEstimator) {
        let sample = now.since(sent);
        if self.enabled && !(again && sample < rtt.min_rtt()) {
            self.rtt = sample;
        }
    }

    /// Enlarges the reordering window after a D-SACK, once a round trip (RFC 8985 §6.2 step 4).
    pub fn note_duplicate(&mut self, seen: bool, nxt: u64) {
        if seen && self.enabled && self.forward >= self.duplicate_until {
            self.duplicate_until = nxt;
            self.quarters = (self.quarters + 1).min(64);
            self.persist = 16;
        }
    }

    /// Resets the reordering window after 16 recoveries without a D-SACK.
    pub fn recovery_ended(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// Clears the queue, because the timeout retransmits everything.
    pub fn timed_out(&mut self) {
        self.order.clear();
        self.probe = None;
        self.stop();
    }

    pub fn stop(&mut self) {
        (self.reordering_timer, self.probe_timer) = (None, None);
    }

    pub fn deadline(&self) -> Option<Time> {
        match (self.reordering_timer, self.probe_timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
