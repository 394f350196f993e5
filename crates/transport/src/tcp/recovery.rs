//! Loss detection and recovery: RFC 6675 with SACK, RFC 6582 without, RFC 6298's timeout, RFC 9937's PRR.

use super::Recovery;
use super::phase::{AckNews, Frto, Phase, Prr};
use super::scoreboard::DUP_THRESHOLD;
use super::suspect::Suspect;
use super::tcb::{Context, Tcb};
use multipath::congestion::{Loss, LossKind, Timeout};

impl Tcb {
    /// In fast recovery or recovering from a timeout.
    pub fn is_recovering(&self) -> bool {
        self.phase != Phase::Open
    }

    /// How many bytes the pipe may hold now.
    pub(super) fn allowed(&self, context: &Context<'_>) -> u64 {
        match self.phase {
            // Without SACK each duplicate acknowledgement says that one segment has left (RFC 5681 §3.2 step 4).
            Phase::Recovery { .. } | Phase::Open if !self.agreed.sack => {
                context.congestion.window(self.path) + u64::from(self.duplicates) * u64::from(self.mss)
            }
            // A control that models the path sets the window in recovery too.
            Phase::Recovery { .. } if self.config.recovery != Recovery::Sack && !self.is_modelled() => {
                self.board.pipe() + self.prr.allowance
            }
            _ => context.congestion.window(self.path),
        }
    }

    /// Draws the consequences of an acknowledgement for loss recovery.
    pub(super) fn detect_loss(&mut self, context: &mut Context<'_>, news: &AckNews) {
        self.rack.note_duplicate(news.duplicate.is_some(), self.nxt);
        self.end_tail_probe(context, news);
        match self.phase {
            Phase::Recovery { until, .. } | Phase::Loss { until, .. } if self.una >= until => {
                self.phase = Phase::Open;
                self.rack.recovery_ended();
                context.congestion.on_recovered(context.now, self.path);
            }
            Phase::Resegmented { until } if self.una >= until => self.phase = Phase::Open,
            _ => {}
        }
        let waiting_before = self.board.waiting();
        if self.board.is_empty() {
            return;
        }
        self.mark_losses(context, news);
        if self.phase == Phase::Open && self.board.waiting() > 0 {
            self.enter_recovery(context);
        } else if matches!(self.phase, Phase::Recovery { .. }) {
            let safe = news.acked > 0 && self.board.waiting() <= waiting_before;
            let sizes = (self.board.pipe(), context.congestion.ssthresh(self.path), u64::from(self.mss));
            self.prr.on_ack(news.delivered, safe, sizes);
        }
    }

    fn mark_losses(&mut self, context: &mut Context<'_>, news: &AckNews) {
        if self.config.recovery == Recovery::Rack && self.agreed.sack {
            self.mark_losses_by_time(context);
            return;
        }
        if self.agreed.sack {
            if self.board.sacked_bytes() > 0 {
                self.board.mark_lost_by_sack(self.mss);
                if u64::from(self.duplicates) >= DUP_THRESHOLD && self.phase == Phase::Open {
                    self.board.mark_front_lost();
                }
            }
            return;
        }
        // RFC 6582: three duplicates, then one more hole with each partial acknowledgement.
        let partial = news.acked > 0 && matches!(self.phase, Phase::Recovery { .. });
        if partial || (self.phase == Phase::Open && u64::from(self.duplicates) >= DUP_THRESHOLD) {
            self.board.mark_front_lost();
            self.force |= partial;
        }
    }

    /// Reduces the window and starts a recovery phase.
    pub(super) fn enter_recovery(&mut self, context: &mut Context<'_>) {
        self.counters.recoveries += 1;
        // Bytes outstanding and not yet known to have arrived, before the loss was marked (RFC 9937 §6.1).
        let flight = self.nxt - self.una - self.board.sacked_bytes();
        self.phase = Phase::Recovery { until: self.nxt, rescued: false };
        self.suspect = self.undoes().then(|| Suspect::new(self.una, self.nxt));
        self.ecn.reduced |= self.agreed.ecn;
        context.congestion.on_loss(&Loss {
            now: context.now,
            path: self.path,
            kind: LossKind::FastRetransmit,
        });
        self.prr = Prr::start(flight);
        self.prr.allowance = u64::from(self.mss);
        self.force = true;
    }

    /// Whether reactions to what proves to be no loss are undone: part of what [`Recovery::Rack`] stands for.
    fn undoes(&self) -> bool {
        self.config.recovery == Recovery::Rack
    }

    /// The timer ran out: whether that may prove spurious. The first timeout stands for those that repeat it, because only
    /// what the window was before it can be restored; one that ends a fast recovery came of a loss.
    fn suspect_timeout(&mut self, repeated: bool) -> Frto {
        if !repeated {
            let fresh = self.undoes() && !matches!(self.phase, Phase::Recovery { .. } | Phase::Loss { .. });
            self.suspect = fresh.then(|| Suspect::new(self.una, self.nxt));
        }
        // With timestamps the first acknowledgement tells, and retransmissions need not wait.
        if self.suspect.is_some() && !self.agreed.timestamps { Frto::First } else { Frto::Over }
    }

    /// The retransmission timer ran out: everything outstanding counts as lost, slow start repairs it.
    pub(super) fn lose_everything(&mut self, context: &mut Context<'_>) {
        self.counters.timeouts += 1;
        let repeated = self.attempts > 1;
        let frto = self.suspect_timeout(repeated);
        self.rtt.back_off();
        self.suspect_black_hole(context);
        self.board.mark_all_lost();
        self.rack.timed_out();
        self.duplicates = 0;
        self.phase = Phase::Loss { until: self.nxt, frto };
        self.ecn.reduced |= self.agreed.ecn;
        context.congestion.on_timeout(&Timeout { now: context.now, path: self.path, repeated });
        self.tell_losses(context);
        self.force = true;
    }
}
