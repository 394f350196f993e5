//! The cause that limits sending of a control block.

use super::phase::RecoveryPhase;
use super::tcb::{Context, Tcb};
use anabranch_base::time::Time;
use anabranch_endpoint::limits::Limit;
use anabranch_multipath::congestion::CongestionControl;

/// Data that the owner of a block has for it, when the block sends nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// No data: the application has written no more.
    Nothing,
    /// No data: the send buffer has refused more.
    Refused,
    /// Bytes of data that wait because the receive window does not admit them.
    Shut(u64),
    /// Bytes of data that wait and that the receive window admits.
    Data(u64),
}

impl Tcb {
    /// The cause that would limit this block even if there was data to send; `None` if there is no such
    /// cause.
    #[inline]
    pub(crate) fn standing(&self) -> Option<Limit> {
        if !self.is_synchronised() {
            return Some(if self.is_over() { Limit::Unusable } else { Limit::Opening });
        }
        match self.attempts {
            0 => None,
            1 => Some(Limit::Timeout),
            _ => Some(Limit::Unusable),
        }
    }

    /// Records that `limit` holds from now on.
    #[inline]
    pub(crate) fn note_limit(&mut self, now: Time, limit: Limit) {
        // Spare room in the window is unused only while the application limits the sender.
        let room = if limit < Limit::Pacing { self.limiting.spare } else { 0 };
        self.limiting.clock.set(now, limit, (room, self.rtt.srtt()));
    }

    /// The cause that limits this block, if there is no [`standing`](Self::standing) one. If data waits, the
    /// congestion window has just been compared with the data in flight ([`sendable`](Self::sendable)).
    #[inline]
    pub(crate) fn limit(&mut self, context: &Context<'_>, demand: Demand) -> Limit {
        let (wanted, with_room) = match demand {
            Demand::Nothing | Demand::Refused => {
                // An end that only receives leaves no window unused.
                self.limiting.spare =
                    if self.nxt > 0 { self.allowed(context).saturating_sub(self.board.pipe()) } else { 0 };
                self.limiting.paced = false;
                if demand == Demand::Nothing {
                    return Limit::Application;
                }
                (u64::from(self.mss), Limit::SendBuffer)
            }
            Demand::Shut(wanted) => (wanted, Limit::ReceiveWindow),
            Demand::Data(wanted) => (wanted, Limit::Scheduler),
        };
        if self.limiting.paced || self.limiting.spare < wanted.min(u64::from(self.mss)) {
            self.limit_without_room(&*context.congestion)
        } else {
            with_room
        }
    }

    /// Records that the owner paces this block and permits no packet now.
    #[inline]
    pub(crate) fn note_paced(&mut self) {
        self.limiting.paced = true;
    }

    /// The cause for a block whose free window admits no packet of the waiting data.
    #[inline]
    pub(crate) fn limit_without_room(&mut self, congestion: &dyn CongestionControl) -> Limit {
        if self.limiting.paced { Limit::Pacing } else { self.window_limit(congestion) }
    }

    /// The cause for a block that sends all data of its connection.
    #[inline]
    pub(crate) fn limit_alone(&mut self, context: &Context<'_>, (available, refused): (u64, bool)) -> Limit {
        let demand = match available {
            0 if refused => Demand::Refused,
            0 => Demand::Nothing,
            _ if self.peer_room() < available.min(u64::from(self.mss)) => Demand::Shut(available),
            _ => Demand::Data(available),
        };
        match self.limit(context, demand) {
            // There is no scheduler: Nagle's algorithm holds back a small segment of the application.
            Limit::Scheduler => Limit::Application,
            limit => limit,
        }
    }

    /// The phase of congestion control in which the window is full.
    #[inline]
    fn window_limit(&mut self, congestion: &dyn CongestionControl) -> Limit {
        if matches!(self.phase, RecoveryPhase::Recovery { .. } | RecoveryPhase::Loss { .. }) {
            return Limit::Recovery;
        }
        if !self.limiting.avoids {
            let slow = congestion.window(self.path) < congestion.ssthresh(self.path);
            self.limiting.avoids = self.uses_path_model() || !slow;
        }
        if self.limiting.avoids { Limit::Avoidance } else { Limit::SlowStart }
    }

    /// Records that window or threshold has changed other than by acknowledgements.
    pub(crate) fn window_changed(&mut self) {
        self.limiting.avoids = false;
    }

    /// Continues the counters and times of the previous block of the same path.
    pub(crate) fn keep_measurements(&mut self, earlier: &Self) {
        self.counters = earlier.counters;
        self.limiting.clock = earlier.limiting.clock;
        self.limiting.peak = earlier.limiting.peak;
        self.limiting.delivered = earlier.limiting.delivered;
    }

    /// Records that the retransmission timer has expired.
    pub(super) fn note_timeout(&mut self, now: Time) {
        self.window_changed();
        self.limiting.clock.charge_back(now, now - self.rtt.rto(), Limit::Timeout);
    }
}
