//! Paths without acknowledgements: tail loss probes, and an early timeout while other paths work.
//!
//! A path's last packets, or their SACK, may be lost. Then no later data reveals the loss, and the retransmission
//! timer (RFC 9260 §16: at least 1 s) is long for a path with a delay of milliseconds. Therefore a path with data in
//! flight, on which nothing was acknowledged for two round trips, retransmits its newest chunk with a request for an
//! immediate SACK (RFC 7053). This is TCP's tail loss probe (RFC 8985 §7), which draft-nielsen-tsvwg-sctp-tlr adds to
//! SCTP. Data that was sent before the original, and is still missing when the probe is answered, is lost (RFC 8985
//! §6.2).
//!
//! The minimum RTO is long because acknowledgements may be late for reasons independent of the path: the receiver
//! delays them, or is busy (RFC 6298 §2.4). While acknowledgements for another path arrive, neither reason applies.
//! Then a path that does not answer a probe times out as early as TCP on Linux: after its smoothed round-trip time
//! plus four times its variation, or plus 200 ms. The rest is as after any timeout: a path that had only stalled
//! recovers its chunks (RFC 5682), and a failed one is potentially failed (RFC 7829).

use super::outbound::{Outbound, Probe};
use crate::common::Core;
use crate::path::silence::{Silence, TailProbe};
use crate::path::state::{Path, Repeat};
use crate::totals::RetransmissionReason;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::congestion::{Loss, LossKind};

/// Minimum difference between timeout and round-trip time while another path receives acknowledgements: `TCP_RTO_MIN`
/// of Linux.
const MIN_TIMEOUT_MARGIN: Duration = Duration::from_millis(200);

impl Path {
    /// Time between the last transmission or acknowledgement and a probe (RFC 8985 §7.2); `None` while the round-trip
    /// time is unknown. The receiver may delay the SACK of a single packet by `sack_delay`.
    fn probe_timeout(&self, sack_delay: Duration) -> Option<Duration> {
        let single = self.in_window() <= u64::from(self.room);
        let held_back = if single { sack_delay } else { Duration::ZERO };
        self.rtt.srtt().map(|srtt| srtt.saturating_mul(2) + held_back)
    }

    /// Time allowed for the answer to a probe.
    fn answer_timeout(&self, least: Duration) -> Duration {
        let room = self.rtt.rttvar().saturating_mul(4).max(least);
        self.rtt.srtt().unwrap_or(Duration::ZERO) + room
    }

    /// Forgets the probe if its chunk was abandoned, because later acknowledgements of that chunk do not answer the
    /// probe.
    pub fn forget_probe(&mut self, tsn: u64) {
        if let Silence::Answer { probe, .. } = &mut self.silence {
            probe.take_if(|probe| probe.tsn == tsn);
        }
    }

    /// Records that the receiver reported the probed chunk as a duplicate.
    pub fn note_probe_duplicate(&mut self, tsn: u64) {
        if let Silence::Answer { probe: Some(probe), .. } = &mut self.silence {
            probe.duplicate |= probe.tsn == tsn;
        }
    }
}

impl Core {
    /// Restarts the measurement of a path's silence after data was sent or acknowledged on it.
    #[inline]
    pub fn watch_silence(&mut self, at: usize, now: Time) {
        if self.config.tail_loss_probe {
            self.measure_silence(at, now);
        }
    }

    fn measure_silence(&mut self, at: usize, now: Time) {
        let path = &mut self.paths[at];
        // Chunks that were moved to other paths are acknowledged there. A timer that has backed off is long on
        // purpose.
        let watched = path.healthy()
            && path.totals.in_flight() > 0
            && path.copies.bytes() == 0
            && path.rtt.backoff() == 0;
        let due = path.probe_timeout(self.config.sack_delay).map(|timeout| now + timeout);
        path.silence = match due.filter(|due| watched && path.retransmission_timer.is_some_and(|t| *due < t))
        {
            Some(due) => Silence::Probe { due },
            None => Silence::Unwatched,
        };
    }
}

impl Outbound {
    /// Handles the timeout before a probe or for its answer. True if the path must be treated as timed out.
    pub fn handle_silence(&mut self, core: &mut Core, at: usize, now: Time) -> bool {
        let silence = core.paths[at].silence;
        if silence.due() > now {
            return false;
        }
        // The path's chunks were abandoned or moved: no acknowledgement is due.
        if core.paths[at].totals.in_flight() == 0 {
            core.paths[at].silence = Silence::Unwatched;
            return false;
        }
        let wait = core.paths[at].answer_timeout(MIN_TIMEOUT_MARGIN.min(core.config.rto.min));
        match silence {
            Silence::Unwatched => false,
            Silence::Probe { .. } => {
                let probe = self.send_tail_probe(core, at, now);
                core.paths[at].silence = Silence::Answer { since: now, due: now + wait, probe };
                false
            }
            Silence::Answer { since, probe, .. } => {
                let since = since.max(core.paths[at].heard);
                let over = since + wait <= now;
                // If no other path has received an acknowledgement since, all of them may be silent or unused. Then
                // only the retransmission timer decides.
                let due = if over { now } else { since } + wait;
                core.paths[at].silence = Silence::Answer { since, due, probe };
                over && core.paths.iter().any(|path| path.healthy() && path.heard > since)
            }
        }
    }

    /// Retransmits the newest chunk in flight on a path. In a recovery phase, enough retransmissions are in flight
    /// already.
    fn send_tail_probe(&mut self, core: &mut Core, at: usize, now: Time) -> Option<TailProbe> {
        let path = &core.paths[at];
        if path.recovery.is_some() || self.has_lost_chunks(path) || self.probe != Probe::None {
            return None;
        }
        let newest = path.order.iter().rev().find(|flight| self.sent.live(**flight, at as u8))?;
        let (tsn, original) = (newest.tsn, newest.sent_as);
        self.lose(core, tsn, RetransmissionReason::Tail);
        self.sent.request_immediate_sack(tsn);
        let path = &mut core.paths[at];
        path.resend.insert(tsn);
        path.resend_now = true;
        Some(TailProbe { tsn, original, sent_at: now, duplicate: false })
    }

    /// After a SACK: evaluates the answer to a probe, for the chunks sent before it and for the probe itself.
    pub fn settle_probe(&mut self, core: &mut Core, at: usize, now: Time) {
        let path = &mut core.paths[at];
        let Silence::Answer { probe: Some(probe), .. } = path.silence else { return };
        if self.sent.get(probe.tsn).is_some_and(|chunk| chunk.state.is_open()) {
            return;
        }
        path.silence = Silence::Unwatched;
        for _ in 0..core.config.missing_reports {
            path.reports.push(probe.original);
        }
        // The answer is too early for the probe, or the receiver reports a duplicate: the original had arrived.
        let repaired = !probe.duplicate && now.since(probe.sent_at) >= path.rtt.min_rtt();
        self.detect_losses(core, at, now);
        if repaired && core.paths[at].recovery.is_none() {
            self.count_repaired(core, (at, now), probe.tsn);
        }
    }

    /// Reduces the window for a loss that the probe repaired (RFC 8985 §7.4), unless a duplicate shows later that
    /// there was no loss.
    fn count_repaired(&mut self, core: &mut Core, (at, now): (usize, Time), tsn: u64) {
        self.reactions = self.reactions.wrapping_add(1).max(1);
        let episode = self.reactions;
        let path = &mut core.paths[at];
        path.counters.recoveries += 1;
        self.begin_episode(path, episode, false);
        path.episode.lost = 1;
        self.repeats.insert(tsn, Repeat { path: at as u8, episode, sure: true });
        let (id, in_flight) = (path.id, path.in_window());
        core.congestion.on_loss(&Loss { now, path: id, kind: LossKind::FastRetransmit, in_flight });
        core.congestion.on_recovered(now, id);
    }
}
