//! State of RACK-TLP (RFC 8985): loss detection by time instead of by counting, and probes for the tail.
//! `time_based.rs` applies it to a connection.
//!
//! Segments are also queued in the order in which they were last sent. Detection looks only at the head of that queue,
//! so a segment costs one look-up whether it is lost, delivered or sent again.

use anabranch_base::time::{Duration, Time};
use anabranch_multipath::rtt::RttEstimator;
use std::collections::VecDeque;

/// A loss probe that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub end: u64,
    pub retransmission: bool,
}

/// State of RACK and TLP; idle until it is enabled.
#[derive(Debug)]
pub(super) struct Rack {
    enabled: bool,
    /// Latest-sent segment known delivered: when it was sent, its end.
    pub newest: (Time, u64),
    pub rtt: Duration,
    /// Highest end delivered.
    forward: u64,
    pub reordering: bool,
    /// Reordering window in quarters of the minimum round-trip time.
    pub quarters: u64,
    /// Recoveries left before the window shrinks back.
    persist: u32,
    duplicate_until: u64,
    /// (last transmission, start), oldest first; entries of segments sent again or gone are stale.
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

    /// Segments that were believed lost are in flight: `segments` contains the send time and the position of each,
    /// oldest first. All were sent before those in the queue, or they would not have been marked lost.
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

    /// RFC 8985 §6.2 steps 1 to 3: a segment is newly known to have arrived.
    pub fn delivered(&mut self, now: Time, (sent, end, again): (Time, u64, bool), rtt: &RttEstimator) {
        if !self.enabled {
            return;
        }
        let sample = now.since(sent);
        // A retransmission acknowledged too early: the acknowledgement is the original's.
        if again && sample < rtt.min_rtt() {
            return;
        }
        if end >= self.forward {
            self.forward = end;
        } else if !again {
            self.reordering = true;
        }
        if (sent, end) > self.newest {
            self.newest = (sent, end);
            self.rtt = sample;
        }
    }

    /// RFC 8985 §6.2 step 4, the D-SACK part: widen the window once a round.
    pub fn note_duplicate(&mut self, seen: bool, nxt: u64) {
        if seen && self.enabled && self.forward >= self.duplicate_until {
            self.duplicate_until = nxt;
            self.quarters = (self.quarters + 1).min(64);
            self.persist = 16;
        }
    }

    /// The window shrinks back after 16 recoveries without a duplicate.
    pub fn recovery_ended(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// Everything is about to be retransmitted.
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
