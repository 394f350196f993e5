//! RACK-TLP (RFC 8985): losses by time instead of by counting, and probes for the tail.
//!
//! Segments are also queued in the order in which they were last sent. Detection looks only at the head of that queue,
//! so a segment costs one look-up whether it is lost, delivered or sent again.

use super::Recovery;
use super::recovery::AckNews;
use super::tcb::{Context, Tcb};
use multipath::congestion::{Loss, LossKind};
use multipath::rtt::RttEstimator;
use multipath::time::{Duration, Time};
use std::collections::VecDeque;

/// Added to the probe timeout when only one segment is out, whose acknowledgement may be delayed (RFC 8985 §7.2).
const WORST_ACK_DELAY: Duration = Duration::from_millis(200);

/// A loss probe that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Probe {
    end: u64,
    retransmission: bool,
}

/// State of RACK and TLP; idle unless enabled.
#[derive(Debug)]
pub(super) struct Rack {
    enabled: bool,
    /// Latest-sent segment known delivered: when it was sent, its end.
    newest: (Time, u64),
    rtt: Duration,
    /// Highest end delivered.
    forward: u64,
    reordering: bool,
    /// Reordering window in quarters of the minimum round-trip time.
    quarters: u64,
    /// Recoveries left before the window shrinks back.
    persist: u32,
    duplicate_until: u64,
    /// (last transmission, start), oldest first; entries of segments sent again or gone are stale.
    order: VecDeque<(Time, u64)>,
    reordering_timer: Option<Time>,
    probe_timer: Option<Time>,
    probe: Option<Probe>,
}

impl Rack {
    pub fn new(enabled: bool) -> Self {
        Self {
            enabled,
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

    /// A segment left (again).
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

    /// Everything is about to be sent again.
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

impl Tcb {
    fn reordering_window(&self) -> Duration {
        let many = self.board.sacked_bytes() >= super::scoreboard::DUP_THRESHOLD * u64::from(self.mss);
        if !self.rack.reordering && (self.is_recovering() || many) {
            return Duration::ZERO;
        }
        let window = self.rtt.min_rtt().div(4).saturating_mul(self.rack.quarters);
        window.min(self.rtt.srtt().unwrap_or(Duration::ZERO))
    }

    /// RFC 8985 §6.2 step 5: segments sent long enough before the newest delivered one are lost.
    pub(super) fn mark_losses_by_time(&mut self, context: &mut Context<'_>) {
        self.rack.reordering_timer = None;
        let window = self.reordering_window();
        while let Some(&(sent, start)) = self.rack.order.front() {
            if let Some(index) = self.board.in_flight_since(start, sent) {
                let end = self.board.get(index).end();
                if (sent, end) >= self.rack.newest {
                    break;
                }
                let deadline = sent + self.rack.rtt + window;
                if deadline > context.now {
                    self.rack.reordering_timer = Some(deadline);
                    break;
                }
                self.board.mark_lost(index);
            }
            self.rack.order.pop_front();
        }
    }

    /// The reordering or probe timer ran out.
    pub(super) fn on_rack_timeout(&mut self, context: &mut Context<'_>) {
        if self.rack.reordering_timer.is_some_and(|at| at <= context.now) {
            self.mark_losses_by_time(context);
            if self.board.waiting() > 0 && !self.is_recovering() {
                self.enter_recovery(context);
            }
            self.tell_losses(context);
        }
        if self.rack.probe_timer.is_some_and(|at| at <= context.now) {
            self.rack.probe_timer = None;
            self.timers.retransmit = Some(context.now + self.rtt.rto());
            self.rack.probe = Some(Probe { end: self.nxt, retransmission: false });
            self.probe_due = true;
            self.force = true;
        }
    }

    /// RFC 8985 §7.2: when to probe the tail.
    pub(super) fn schedule_tail_probe(&mut self, context: &Context<'_>) {
        self.rack.probe_timer = None;
        if self.config.recovery != Recovery::Rack
            || !self.agreed.sack
            || self.is_recovering()
            || self.board.is_empty()
            || self.board.sacked_bytes() > 0
            || self.rack.probe.is_some()
        {
            return;
        }
        let Some(srtt) = self.rtt.srtt() else { return };
        let mut timeout = srtt.saturating_mul(2);
        if self.board.pipe() <= u64::from(self.mss) {
            timeout += WORST_ACK_DELAY;
        }
        // A probe takes the place of the first timeout.
        self.rack.probe_timer = self.timers.retransmit.map(|rto| rto.min(context.now + timeout));
    }

    /// True if a tail probe is to be sent.
    pub(super) fn tail_probe_due(&self) -> bool {
        self.probe_due && self.rack.probe.is_some() && !self.board.is_empty()
    }

    /// The probe left: as new data, or as the last segment again.
    pub(super) fn tail_probe_sent(&mut self, retransmission: bool) {
        self.probe_due = false;
        self.force = false;
        self.counters.probes += 1;
        self.rack.probe = Some(Probe { end: self.nxt, retransmission });
    }

    /// RFC 8985 §7.4: does an acknowledgement show that the probe repaired a loss?
    pub(super) fn end_tail_probe(&mut self, context: &mut Context<'_>, news: &AckNews) {
        let Some(probe) = self.rack.probe else { return };
        // An acknowledgement of no more than was probed may be that of the original, late: then a duplicate will be
        // reported, or else more be acknowledged.
        let undecided = probe.retransmission && self.una == probe.end && !news.duplicate;
        if self.una < probe.end || undecided {
            return;
        }
        self.rack.probe = None;
        if probe.retransmission && !news.duplicate && !self.is_recovering() {
            context.congestion.on_loss(&Loss {
                now: context.now,
                path: self.path,
                kind: LossKind::FastRetransmit,
            });
            context.congestion.on_recovered(context.now, self.path);
        }
    }
}
