//! Loss detection and recovery: RFC 6675 with SACK, RFC 6582 without it, timeouts by RFC 6298, PRR by RFC 9937.

use super::Recovery;
use super::phase::{AckEffects, Frto, Prr, RecoveryPhase};
use super::scoreboard::DUP_THRESHOLD;
use super::suspect::Suspect;
use super::tcb::{Context, Tcb};
use anabranch_multipath::congestion::{Loss, LossKind, Timeout};

/// The state of a sender's loss recovery, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossState {
    /// No data is missing.
    Open,
    /// Data arrived out of order, and none is considered lost.
    Disorder,
    /// Fast recovery.
    Recovery,
    /// Recovery after a timeout.
    Loss,
}

impl Tcb {
    /// Bytes marked lost, retransmitted or not, and bytes of which a retransmission is in flight. Walks over
    /// all segments in flight.
    pub fn lost_and_retransmitted(&self) -> (u64, u64) {
        self.board.lost_and_retransmitted()
    }

    /// The state of loss recovery.
    pub fn loss_state(&self) -> LossState {
        match self.phase {
            RecoveryPhase::Recovery { .. } => LossState::Recovery,
            RecoveryPhase::Loss { .. } => LossState::Loss,
            _ if self.duplicates > 0 || self.sacked_bytes() > 0 => LossState::Disorder,
            _ => LossState::Open,
        }
    }

    /// Returns true in fast recovery, and in the recovery after a timeout.
    pub fn is_recovering(&self) -> bool {
        self.phase != RecoveryPhase::Open
    }

    /// Limit of bytes in flight (`pipe`).
    pub(super) fn allowed(&self, context: &Context<'_>) -> u64 {
        match self.phase {
            // Without SACK each duplicate acknowledgement shows that one segment has left the network (RFC 5681 §3.2 step 4).
            RecoveryPhase::Recovery { .. } | RecoveryPhase::Open if !self.agreed.sack => {
                context.congestion.window(self.path) + u64::from(self.duplicates) * u64::from(self.mss)
            }
            // A control that models the path sets the window in recovery too.
            RecoveryPhase::Recovery { .. }
                if self.config.recovery != Recovery::Sack && !self.uses_path_model() =>
            {
                self.board.pipe() + self.prr.allowance
            }
            _ => context.congestion.window(self.path),
        }
    }

    /// Applies an acknowledgement to loss recovery.
    pub(super) fn detect_loss(&mut self, context: &mut Context<'_>, effects: &AckEffects) {
        self.rack.note_duplicate(effects.duplicate.is_some(), self.nxt);
        self.end_tail_probe(context, effects);
        match self.phase {
            RecoveryPhase::Recovery { until, .. } | RecoveryPhase::Loss { until, .. }
                if self.una >= until =>
            {
                self.phase = RecoveryPhase::Open;
                self.rack.recovery_ended();
                context.congestion.on_recovered(context.now, self.path);
            }
            RecoveryPhase::Resegmented { until } if self.una >= until => self.phase = RecoveryPhase::Open,
            _ => {}
        }
        let waiting_before = self.board.waiting();
        if self.board.is_empty() {
            return;
        }
        self.mark_losses(context, effects);
        if self.phase == RecoveryPhase::Open && self.board.waiting() > 0 {
            self.enter_recovery(context, effects.acked);
        } else if matches!(self.phase, RecoveryPhase::Recovery { .. }) {
            let safe = effects.acked > 0 && self.board.waiting() <= waiting_before;
            let sizes = (self.board.pipe(), context.congestion.ssthresh(self.path), u64::from(self.mss));
            self.prr.on_ack(effects.delivered, safe, sizes);
        }
    }

    fn mark_losses(&mut self, context: &mut Context<'_>, effects: &AckEffects) {
        if self.config.recovery == Recovery::Rack && self.agreed.sack {
            self.mark_losses_by_time(context);
            return;
        }
        if self.agreed.sack {
            if self.board.sacked_bytes() > 0 {
                self.board.mark_lost_by_sack(self.mss);
                if u64::from(self.duplicates) >= DUP_THRESHOLD && self.phase == RecoveryPhase::Open {
                    self.board.mark_front_lost();
                }
            }
            return;
        }
        // RFC 6582: three duplicates start recovery, and each partial acknowledgement shows one more hole.
        let partial = effects.acked > 0 && matches!(self.phase, RecoveryPhase::Recovery { .. });
        if partial || (self.phase == RecoveryPhase::Open && u64::from(self.duplicates) >= DUP_THRESHOLD) {
            self.board.mark_front_lost();
            self.force |= partial;
        }
    }

    /// Reduces the window and starts fast recovery; the acknowledgement that shows the loss acknowledges `acked`
    /// bytes.
    pub(super) fn enter_recovery(&mut self, context: &mut Context<'_>, acked: u64) {
        self.counters.recoveries += 1;
        // Bytes outstanding and not selectively acknowledged, before the loss is marked (RFC 9937 §6.1).
        let flight = self.nxt - self.una - self.board.sacked_bytes();
        self.phase = RecoveryPhase::Recovery { until: self.nxt, rescued: false };
        self.suspect = self.undoes().then(|| Suspect::new(self.una, self.nxt));
        self.ecn.reduced |= self.agreed.ecn;
        self.window_changed();
        context.congestion.on_loss(&Loss {
            now: context.now,
            path: self.path,
            kind: LossKind::FastRetransmit,
            in_flight: self.window_used(context, self.una - acked),
        });
        self.prr = Prr::start(flight);
        self.prr.allowance = u64::from(self.mss);
        self.force = true;
    }

    /// Part of the window in use while `una` was the first unacknowledged byte: the bytes in flight, or the whole
    /// window if data in flight has filled it.
    pub(super) fn window_used(&self, context: &Context<'_>, una: u64) -> u64 {
        let in_flight = self.nxt - una;
        if self.used.was_full(una) { in_flight.max(context.congestion.window(self.path)) } else { in_flight }
    }

    /// Returns true if reactions to spurious losses are undone, which [`Recovery::Rack`] includes.
    fn undoes(&self) -> bool {
        self.config.recovery == Recovery::Rack
    }

    /// Determines after a timeout whether it may prove spurious. Repeated timeouts keep the record of the first,
    /// because only the window before the first can be restored. A timeout that ends a fast recovery was caused by a
    /// loss.
    fn suspect_timeout(&mut self, repeated: bool) -> Frto {
        if !repeated {
            let fresh = self.undoes()
                && !matches!(self.phase, RecoveryPhase::Recovery { .. } | RecoveryPhase::Loss { .. });
            self.suspect = fresh.then(|| Suspect::new(self.una, self.nxt));
        }
        // With timestamps the echo decides, and retransmissions need not wait for F-RTO.
        if self.suspect.is_some() && !self.agreed.timestamps { Frto::First } else { Frto::Over }
    }

    /// Marks everything outstanding as lost after the retransmission timer has expired, and repairs it in slow start.
    pub(super) fn lose_everything(&mut self, context: &mut Context<'_>) {
        self.counters.timeouts += 1;
        let repeated = self.attempts > 1;
        let frto = self.suspect_timeout(repeated);
        self.counters.timeout_reductions += 1;
        self.note_timeout(context.now);
        self.rtt.back_off();
        self.suspect_black_hole(context);
        self.board.mark_all_lost();
        self.rack.timed_out();
        self.duplicates = 0;
        self.phase = RecoveryPhase::Loss { until: self.nxt, frto };
        self.ecn.reduced |= self.agreed.ecn;
        let in_flight = self.window_used(context, self.una);
        context.congestion.on_timeout(&Timeout { now: context.now, path: self.path, repeated, in_flight });
        self.tell_losses(context);
        self.force = true;
    }
    /// Retransmits outstanding data at once, because the path works again after timeouts. It does not count as a
    /// timeout, and does not double the timer.
    pub(crate) fn repair_now(&mut self, context: &mut Context<'_>) {
        if self.board.is_empty() || !matches!(self.phase, RecoveryPhase::Loss { .. }) {
            return;
        }
        self.board.mark_all_lost();
        self.rack.timed_out();
        self.phase = RecoveryPhase::Loss { until: self.nxt, frto: Frto::Over };
        self.timers.retransmit = Some(context.now + self.rtt.rto());
        self.tell_losses(context);
        self.force = true;
    }
}
