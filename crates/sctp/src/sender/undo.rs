//! Detection of spurious retransmissions, and the reversal of their effects.
//!
//! A path responds to a loss or a timeout once, and stores the number of chunks that it counted as lost
//! ([`Episode`]). The first transmission of a chunk has arrived if the chunk is acknowledged before its
//! retransmission, or if the receiver reports its second arrival as a duplicate (RFC 3708 §3, §4). If this holds for
//! all of these chunks, the response was spurious. Then the congestion control undoes it, and a path that reorders
//! packets gets a reordering window ([`reordering_window`](Path::reordering_window), RFC 8985 §6.2 step 4).
//!
//! A spurious timeout is detected earlier, as in RFC 5682 §3: two successive SACKs acknowledge data sent later than
//! every retransmission, and nothing before it is missing. A single SACK does not suffice, because it may replace
//! others that were lost together with all data sent since, for example when a path fails in both directions. If the
//! condition holds, acknowledgements were late and not lost, and chunks that have not been retransmitted are in
//! flight again.

use super::outbound::Outbound;
use super::outstanding::Chunk;
use crate::common::Core;
use crate::path::state::{Episode, Flight, Path, Repeat};
use crate::totals::{ChunkState, RetransmissionReason};
use anabranch_base::time::{Duration, Time};
use anabranch_wire::seq::Serial;

/// Number of loss recoveries for which the reordering window remains after a spurious one (RFC 8985 §6.2 step 4).
const REORDERING_WINDOW_RECOVERIES: u32 = 16;

impl Path {
    /// Reordering window: time that a chunk with enough missing reports may still need to arrive (RFC 8985 §6.2 step
    /// 4).
    pub fn reordering_window(&self) -> Duration {
        if self.tolerance == 0 {
            return Duration::ZERO;
        }
        let step = self.rtt.min_rtt().div(4);
        step.saturating_mul(u64::from(self.tolerance)).min(self.rtt.srtt().unwrap_or(Duration::ZERO))
    }

    /// Counts a recovery phase: the reordering window expires after several of them.
    pub fn count_recovery_phase(&mut self) {
        self.patient_for = self.patient_for.saturating_sub(1);
        if self.patient_for == 0 {
            self.tolerance = 0;
        }
    }
}

impl Outbound {
    /// Starts an episode: a recovery phase or timeout with this number on a path.
    pub fn begin_episode(&mut self, path: &mut Path, number: u32, timeout: bool) {
        let before = path.episode.number;
        if before != 0 {
            self.repeats.retain(|_, repeat| repeat.episode != before);
        }
        path.episode = Episode { number, timeout, ..Episode::default() };
    }

    /// Records the retransmission of a chunk that was counted as lost; `chunk` is its previous state.
    pub fn note_retransmission(&mut self, tsn: u64, chunk: &Chunk) {
        if chunk.recovery != 0
            && matches!(
                chunk.state,
                ChunkState::Lost(RetransmissionReason::Fast | RetransmissionReason::Timeout)
            )
        {
            let sure = chunk.transmissions == 1;
            self.repeats.insert(tsn, Repeat { path: chunk.path, episode: chunk.recovery, sure });
        } else {
            // After a further retransmission, a duplicate may be of the first one.
            self.repeats.remove(&tsn);
        }
    }

    /// Records that a chunk is acknowledged before its retransmission; `chunk` is its previous state.
    pub fn note_arrival(core: &mut Core, tsn: u64, chunk: &Chunk) {
        let episode = &mut core.paths[usize::from(chunk.path)].episode;
        if chunk.transmissions == 1 && episode.number == chunk.recovery {
            episode.shown += 1;
            episode.newest = episode.newest.max(tsn);
        }
    }

    /// Processes the duplicates reported by the receiver.
    pub fn process_duplicates(&mut self, core: &mut Core, now: Time, duplicates: &[Serial]) {
        for duplicate in duplicates {
            let tsn = duplicate.unwrap_near(self.sent.base());
            for path in &mut core.paths {
                path.note_probe_duplicate(tsn);
                if !core.sends_copies
                    && let Some(copy) = path.copies.take(tsn)
                {
                    // If this path's copy arrived first, the sample is slightly too long.
                    path.rtt.sample(now.since(copy.sent_at));
                    path.heard = now;
                }
            }
            let Some(repeat) = self.repeats.remove(&tsn) else { continue };
            let episode = &mut core.paths[usize::from(repeat.path)].episode;
            if repeat.sure && episode.number == repeat.episode {
                episode.shown += 1;
            }
        }
    }

    /// Called after a SACK is processed: undoes the responses that it proves to be spurious.
    pub fn settle_spurious(&mut self, core: &mut Core, now: Time) {
        for at in 0..core.paths.len() {
            let episode = &core.paths[at].episode;
            if episode.number == 0 || episode.shown == 0 {
                continue;
            }
            let episode = *episode;
            let sacks = episode.sacks + u32::from(episode.newest > 0);
            core.paths[at].episode.sacks = sacks;
            let late = episode.timeout && episode.newest > 0 && sacks > 1 && !self.missing_before(&episode);
            if late {
                self.restore(core, at, now);
            }
            if late || episode.shown >= episode.lost {
                self.take_back(core, at, now);
            }
            core.paths[at].episode.newest = 0;
        }
    }

    /// Returns true if a chunk with a lower TSN than `newest` was retransmitted in this episode and is still
    /// unacknowledged.
    fn missing_before(&self, episode: &Episode) -> bool {
        self.repeats.range(..episode.newest).any(|(&tsn, repeat)| {
            repeat.episode == episode.number && self.sent.get(tsn).is_some_and(|chunk| chunk.state.is_open())
        })
    }

    /// Marks the chunks that a timeout counted as lost and that have not been retransmitted as in flight again.
    fn restore(&mut self, core: &mut Core, at: usize, now: Time) {
        let number = core.paths[at].episode.number;
        let waits = |tsn: &u64| {
            self.sent.get(*tsn).is_some_and(|chunk| {
                chunk.state == ChunkState::Lost(RetransmissionReason::Timeout)
                    && (usize::from(chunk.path), chunk.recovery) == (at, number)
            })
        };
        let waiting: Vec<u64> =
            core.paths.iter().flat_map(|path| path.resend.iter().copied().filter(waits)).collect();
        let mut flights = Vec::with_capacity(waiting.len());
        for tsn in waiting {
            let Some(chunk) = self.sent.restore(&mut core.paths, tsn) else { continue };
            core.paths.iter_mut().for_each(|path| {
                path.resend.remove(&tsn);
            });
            flights.push((chunk.sent_as, tsn, chunk.fast));
        }
        flights.sort_unstable();
        let path = &mut core.paths[at];
        for &(sent_as, tsn, fast) in flights.iter().rev() {
            path.order.push_front(Flight { tsn, sent_as });
            if !fast {
                path.watch.push_front(Flight { tsn, sent_as });
            }
        }
        if path.totals.in_flight() > 0 {
            path.start_timer(now);
        }
    }

    fn take_back(&mut self, core: &mut Core, at: usize, now: Time) {
        let path = &mut core.paths[at];
        let (id, episode) = (path.id, core::mem::take(&mut path.episode));
        self.repeats.retain(|_, repeat| repeat.episode != episode.number);
        if !episode.timeout {
            path.tolerance += 1;
            path.patient_for = REORDERING_WINDOW_RECOVERIES;
        }
        path.avoids = false;
        let recovering = path.recovery.take_if(|recovery| recovery.phase == episode.number);
        core.totals.spurious_reactions += 1;
        core.congestion.on_spurious(now, id);
        if recovering.is_some() {
            core.congestion.on_recovered(now, id);
        }
    }
}
