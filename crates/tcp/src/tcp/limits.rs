//! The cause that limits a block, for its times by cause.

use super::phase::RecoveryPhase;
use super::tcb::{Context, Tcb};
use anabranch_base::time::Time;
use anabranch_endpoint::limits::Limit;
use anabranch_multipath::congestion::CongestionControl;

/// Data that the owner of a block has for it, now that nothing more is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// None: the application has written no more.
    Nothing,
    /// None, because the send buffer has refused more.
    Refused,
    /// This number of bytes, but the receive window does not admit them.
    Shut(u64),
    /// This number of bytes.
    Data(u64),
}

impl Tcb {
    /// The cause that limits this block whatever data there is, if there is one.
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

    /// From now on `limit` holds.
    #[inline]
    pub(crate) fn note_limit(&mut self, now: Time, limit: Limit) {
        // A full window, a pacing rate and a path that cannot send miss nothing.
        let room = if limit < Limit::Pacing { self.limiting.spare } else { 0 };
        self.limiting.clock.set(now, limit, (room, self.rtt.srtt()));
    }

    /// The cause for which nothing more is sent, if there is no [`standing`](Self::standing) one. With data the
    /// congestion window has just been compared with the data in flight ([`sendable`](Self::sendable)).
    #[inline]
    pub(crate) fn limit(&mut self, context: &Context<'_>, demand: Demand) -> Limit {
        let (wanted, with_room) = match demand {
            Demand::Nothing | Demand::Refused => {
                // A receiver that never sends misses nothing.
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

    /// The owner of the block paces it, and does not permit a packet now.
    #[inline]
    pub(crate) fn note_paced(&mut self) {
        self.limiting.paced = true;
    }

    /// The cause for a block that may not send a packet of the waiting data.
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
            // Without a scheduler, Nagle's algorithm holds back a small segment.
            Limit::Scheduler => Limit::Application,
            limit => limit,
        }
    }

    /// Phase of congestion control that the full window is in.
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

    /// The window or its threshold has changed other than by acknowledgements.
    pub(crate) fn window_changed(&mut self) {
        self.limiting.avoids = false;
    }

    /// Continues the counters and times of an earlier block of the same path.
    pub(crate) fn keep_measurements(&mut self, earlier: &Self) {
        self.counters = earlier.counters;
        self.limiting.clock = earlier.limiting.clock;
        self.limiting.peak = earlier.limiting.peak;
        self.limiting.delivered = earlier.limiting.delivered;
    }

    /// The retransmission timer has run out.
    pub(super) fn note_timeout(&mut self, now: Time) {
        self.window_changed();
        self.limiting.clock.charge_back(now, now - self.rtt.rto(), Limit::Timeout);
    }
}
