//! Loss detection by time and tail-loss probes (RFC 8985 §6 and §7), on the state in `rack.rs`.

use super::Recovery;
use super::phase::AckEffects;
use super::rack::Probe;
use super::tcb::{Context, Tcb};
use anabranch_base::time::Duration;
use anabranch_multipath::congestion::{Loss, LossKind};

/// Added to the probe timeout while only one segment is outstanding, because its acknowledgement may be delayed (RFC
/// 8985 §7.2).
const WORST_ACK_DELAY: Duration = Duration::from_millis(200);

impl Tcb {
    fn reordering_window(&self) -> Duration {
        let many = self.board.sacked_bytes() >= super::scoreboard::DUP_THRESHOLD * u64::from(self.mss);
        if !self.rack.reordering && (self.is_recovering() || many) {
            return Duration::ZERO;
        }
        let window = self.rtt.min_rtt().div(4).saturating_mul(self.rack.quarters);
        window.min(self.rtt.srtt().unwrap_or(Duration::ZERO))
    }

    /// Marks segments as lost that were sent long enough before the newest delivered one (RFC 8985 §6.2 step 5).
    pub(super) fn mark_losses_by_time(&mut self, context: &mut Context<'_>) {
        self.rack.reordering_timer = None;
        let window = self.reordering_window();
        while let Some(&(sent, start)) = self.rack.order.front() {
            let Some(index) = self.board.in_flight_since(start, sent) else {
                self.rack.order.pop_front();
                continue;
            };
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
    }

    /// Handles the reordering timer or the probe timer.
    pub(super) fn on_rack_timeout(&mut self, context: &mut Context<'_>) {
        if self.rack.reordering_timer.is_some_and(|at| at <= context.now) {
            self.mark_losses_by_time(context);
            if self.board.waiting() > 0 && !self.is_recovering() {
                self.enter_recovery(context, 0);
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

    /// Sets the timer of a tail loss probe (RFC 8985 §7.2).
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
        // A probe replaces the first timeout.
        self.rack.probe_timer = self.timers.retransmit.map(|rto| rto.min(context.now + timeout));
    }

    /// True if a tail probe is to be sent.
    pub(super) fn tail_probe_due(&self) -> bool {
        self.probe_due && self.rack.probe.is_some() && !self.board.is_empty()
    }

    /// Records that the probe was sent: as new data, or as a retransmission of the last segment.
    pub(super) fn tail_probe_sent(&mut self, retransmission: bool) {
        self.probe_due = false;
        self.force = false;
        self.counters.probes += 1;
        self.rack.probe = Some(Probe { end: self.nxt, retransmission });
    }

    /// Determines whether an acknowledgement shows that the probe repaired a loss (RFC 8985 §7.4).
    pub(super) fn end_tail_probe(&mut self, context: &mut Context<'_>, effects: &AckEffects) {
        let Some(probe) = self.rack.probe else { return };
        // An acknowledgement of only the probed data may be a late one of the original. Then a D-SACK or an
        // acknowledgement of more data follows.
        let duplicated = effects.duplicate.is_some();
        let undecided = probe.retransmission && self.una == probe.end && !duplicated;
        if self.una < probe.end || undecided {
            return;
        }
        self.rack.probe = None;
        if probe.retransmission && !duplicated && !self.is_recovering() {
            self.window_changed();
            self.counters.probe_reductions += 1;
            context.congestion.on_loss(&Loss {
                now: context.now,
                path: self.path,
                kind: LossKind::FastRetransmit,
                in_flight: self.window_used(context, self.una - effects.acked),
            });
            context.congestion.on_recovered(context.now, self.path);
        }
    }
}
