//! Rate samples for congestion controls that use them, and pacing.

use super::outbound::Outbound;
use super::outstanding::Chunk;
use crate::common::Core;
use crate::path::state::Path;
use anabranch_base::time::Time;
use anabranch_endpoint::rate::{PathRate, Repair, Transmission};

impl Path {
    /// True if a packet of new data may be sent now: the pacer or, without one, `Max.Burst` allows it.
    pub fn is_released(&self, now: Time) -> bool {
        match &self.rate {
            Some(rate) if rate.paces() => !rate.is_holding_back(now),
            _ => self.burst_left > 0,
        }
    }

    /// True if the pacer delays a packet that could be sent now.
    pub fn is_paced_out(&self, now: Time) -> bool {
        self.rate.as_ref().is_some_and(|rate| rate.is_holding_back(now))
    }
}

impl Core {
    /// Starts the rate estimator of a path after the congestion control was informed of the path.
    pub(crate) fn start_rate(&self, path: &mut Path) {
        path.rate = PathRate::for_path(&*self.congestion, path.id);
    }

    /// Records a chunk with `len` bytes of payload sent on path `at`, where it is in flight. `earlier` contains the
    /// path and number of its previous transmission.
    pub(crate) fn rate_sent(
        &mut self,
        (sent_as, len): (u64, u32),
        earlier: Option<(usize, u64)>,
        (at, now): (usize, Time),
    ) {
        if let Some((before, number)) = earlier
            && let Some(rate) = &mut self.paths[before].rate
        {
            rate.forget(number..number + 1);
        }
        let path = &mut self.paths[at];
        if path.rate.is_none() {
            return;
        }
        let (in_flight, mss, again) = (path.in_window(), path.room, earlier.is_some());
        let bytes = path.chunk_len(len);
        if let Some(rate) = &mut path.rate {
            let sent = Transmission { range: sent_as..sent_as + 1, bytes, in_flight, again, mss };
            rate.sent(&mut *self.congestion, now, sent);
        }
    }

    /// Records the delivery of a chunk.
    pub(crate) fn rate_delivered(&mut self, chunk: &Chunk, now: Time) {
        if let Some(rate) = &mut self.paths[usize::from(chunk.path)].rate {
            rate.delivered(now, chunk.sent_as..chunk.sent_as + 1);
        }
    }

    /// Records a chunk that is considered lost in the network.
    pub(crate) fn rate_lost(&mut self, chunk: &Chunk, now: Time) {
        if let Some(rate) = &mut self.paths[usize::from(chunk.path)].rate {
            rate.lost(&mut *self.congestion, now, chunk.sent_as..chunk.sent_as + 1);
        }
    }
}

impl Outbound {
    /// Passes the rate samples of a SACK to the congestion control.
    pub(crate) fn report_rates(&self, core: &mut Core, now: Time) {
        let congestion = &mut *core.congestion;
        for path in &mut core.paths {
            if path.rate.is_none() {
                continue;
            }
            let in_window = path.in_window();
            let limited = path.fills(congestion.window(path.id), path.summary.before, core.config.overshoot);
            let Some(rate) = &mut path.rate else { continue };
            match rate.repair {
                Repair::Sending if path.resend.is_empty() => rate.repair = Repair::Sent(self.transmissions),
                Repair::Sent(last)
                    if self
                        .sent
                        .front(&mut path.order, path.id.0)
                        .is_none_or(|flight| flight.sent_as > last) =>
                {
                    rate.repair = Repair::Done;
                    congestion.on_recovered(now, path.id);
                }
                _ => {}
            }
            rate.report(congestion, now, (in_window, limited));
        }
    }

    /// Records a timeout, which counts all data in flight on a path as lost.
    pub(crate) fn rate_timeout(path: &mut Path) {
        if let Some(rate) = &mut path.rate {
            rate.repair = Repair::Sending;
        }
    }

    /// Records the limits of rate samples when nothing more can be sent now. A path delayed by its pacer is polled
    /// again. A path is application-limited if it could send but has no data, or if the scheduler prefers to wait. A
    /// closed receive window and a buffer share count as limits of the network.
    pub(crate) fn settle_rates(&self, core: &mut Core, now: Time, next: Option<u32>) {
        for at in 0..core.paths.len() {
            if core.paths[at].rate.is_none() || !core.paths[at].active() {
                continue;
            }
            let path = &core.paths[at];
            let admitted = core.window_admits(path, next.unwrap_or(path.mss));
            let again = self.sent.totals().lost_chunks() > 0 && !path.resend.is_empty();
            let dry = next.is_none() && !again && self.refused.is_none();
            let spared = next.is_some() && path.blocked.is_none() && path.is_released(now);
            let in_window = path.in_window();
            let path = &mut core.paths[at];
            if let Some(rate) = path.rate.as_mut().filter(|_| admitted) {
                if dry || spared {
                    rate.set_application_limited(in_window);
                } else {
                    rate.holds_back(now);
                }
            }
        }
    }
}
