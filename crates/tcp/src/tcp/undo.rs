//! Detection of spurious losses and timeouts, and the undoing of the reactions to them.
//!
//! A late segment looks like a lost one. Three signs show, when it arrives, that a retransmission was spurious:
//!
//! - the acknowledgement echoes a timestamp from before the retransmission (Eifel detection, RFC 3522);
//! - the receiver reports every retransmission as a duplicate (D-SACK, RFC 2883 and RFC 3708);
//! - after a timeout, data that was sent only once is acknowledged, while new data was sent in place of more
//!   retransmissions (F-RTO, RFC 5682 §3).
//!
//! Window and threshold are then restored (RFC 4015), and segments that still wait to be retransmitted are in flight
//! again.

use super::phase::{AckEffects, Frto, RecoveryPhase};
use super::tcb::{Context, Tcb};
use anabranch_base::time::Time;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::Timestamps;

impl Tcb {
    /// Returns true if an acknowledgement echoes the timestamp of a segment sent before `sent`.
    pub(super) fn echoes_before(&self, timestamps: Option<Timestamps>, sent: Time) -> bool {
        self.agreed.timestamps
            && timestamps.is_some_and(|t| Serial(t.echo).before(Serial(self.clock_value(sent))))
    }

    /// Returns true if an acknowledgement echoes the timestamp of a segment sent at `sent` or later.
    pub(crate) fn echoes_after(&self, timestamps: Option<Timestamps>, sent: Time) -> bool {
        self.agreed.timestamps
            && timestamps.is_some_and(|t| !Serial(t.echo).before(Serial(self.clock_value(sent))))
    }

    /// Records a retransmission.
    pub(super) fn suspect_retransmitted(&mut self, context: &Context<'_>, start: u64, len: u32) {
        if self.phase == RecoveryPhase::Open {
            return; // a tail loss probe, which has a separate test (RFC 8985 §7.4)
        }
        let stamp = self.clock_value(context.now);
        if let Some(suspect) = &mut self.suspect {
            suspect.retransmitted(start, len, stamp);
        }
    }

    /// Undoes the last reaction if an acknowledgement shows that it was spurious.
    pub(super) fn detect_spurious(
        &mut self,
        context: &mut Context<'_>,
        effects: &AckEffects,
        timestamps: Option<Timestamps>,
    ) {
        let Some(suspect) = &mut self.suspect else { return };
        let mut spurious = false;
        if effects.acked > 0
            && self.agreed.timestamps
            && let Some(Timestamps { echo, .. }) = timestamps
        {
            // A D-SACK shows that the first acknowledgement was lost. Later ones give no information (RFC 3522 §3.2
            // step 6).
            spurious = suspect.is_decided_by(echo) && effects.duplicate.is_none();
        }
        if self.rack.probe.is_none()
            && let Some(duplicate) = effects.duplicate
        {
            suspect.duplicated(duplicate);
        }
        if spurious || suspect.is_explained(self.una) || self.is_decided_by_new_data(effects) {
            self.undo(context);
        }
    }

    /// Steps 2 and 3 of F-RTO (RFC 5682 §3.1): returns true if an acknowledgement of data that was sent only once
    /// proves the timeout spurious.
    fn is_decided_by_new_data(&mut self, effects: &AckEffects) -> bool {
        let RecoveryPhase::Loss { until, frto } = self.phase else { return false };
        if effects.overtaken {
            return false; // a response to packets before the timeout
        }
        let next = match frto {
            Frto::Over => return false,
            // Step 2: the first acknowledgement after the timeout advances, so new data is sent.
            Frto::First if effects.acked > 0 => Frto::NewData,
            // Step 3: data has arrived that was sent once, before the timeout.
            Frto::NewData if self.nxt > until => {
                if effects.original.is_some_and(|start| start < until) {
                    return true;
                }
                Frto::Over
            }
            Frto::NewData => Frto::NewData,
            Frto::First => Frto::Over,
        };
        self.phase = RecoveryPhase::Loss { until, frto: next };
        false
    }

    /// Returns true if retransmissions have to wait for the acknowledgement of new data.
    pub(super) fn holds_for_new_data(&self) -> bool {
        matches!(self.phase, RecoveryPhase::Loss { frto: Frto::NewData, .. })
    }

    /// Ends F-RTO if there is no new data to send in place of retransmissions; returns true if these continue.
    pub(super) fn ends_frto_without_data(&mut self) -> bool {
        let RecoveryPhase::Loss { until, frto: Frto::NewData } = self.phase else { return false };
        let ends = self.nxt == until;
        if ends {
            self.phase = RecoveryPhase::Loss { until, frto: Frto::Over };
        }
        ends
    }

    /// Undoes a spurious reaction: restores window, threshold and segments as far as possible.
    fn undo(&mut self, context: &mut Context<'_>) {
        self.suspect = None;
        self.counters.undone += 1;
        self.window_changed();
        context.congestion.on_spurious(context.now, self.path);
        if matches!(self.phase, RecoveryPhase::Loss { .. }) {
            // RACK took the delivery for that of the retransmission, which is wrong for a spurious timeout.
            self.rack.newest = (Time::ZERO, 0);
        }
        match self.phase {
            RecoveryPhase::Recovery { .. } | RecoveryPhase::Loss { .. } => {
                context.congestion.on_recovered(context.now, self.path);
                self.rack.restored(self.board.restore());
                self.rack.recovery_ended();
                self.phase = RecoveryPhase::Open;
                self.force = false;
            }
            // The recovery had ended before it proved spurious.
            RecoveryPhase::Open | RecoveryPhase::Resegmented { .. } => {}
        }
        self.rack.reordering = true;
    }
}
