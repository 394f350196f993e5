//! Processing of a SACK by the sender (RFC 9260 §6.2.1, §7.2).
//!
//! A SACK contains all that the receiver holds after a gap. It is compared with the SACK before it, run by run, and
//! only the chunks in the difference are processed, each in constant time. The cost of a SACK therefore depends on its
//! gap blocks (those that fit a packet) and on the chunks that it newly acknowledges, not on the number of outstanding
//! chunks.
//!
//! On each path, the oldest transmission in flight is the pseudo-cumulative point (CUC): when a SACK acknowledges it,
//! the path's window may grow and its timer is restarted. [`Reports`](crate::path::reports::Reports) counts missing reports.
//!
//! SACKs arrive over several paths and overtake each other. A SACK that does not advance the cumulative TSN, reneges on
//! chunks and acknowledges nothing new is considered overtaken and ignored. If the receiver really reneged, its next
//! SACK with a new acknowledgement shows this again. Then the chunks are in flight again, with the timer running.

use super::gaps::{Change, Runs, absolute, clip, difference, retain_tail};
use super::outbound::{Outbound, Probe};
use super::outstanding::Chunk;
use crate::common::Core;
use crate::path::silence::Silence;
use crate::path::state::{Flight, Path, SackSummary};
use crate::totals::{ChunkState, RetransmissionReason};
use anabranch_base::time::Time;
use anabranch_multipath::congestion::Ack;
use anabranch_wire::sctp::{DataFlags, GapBlock};
use anabranch_wire::seq::Serial;

/// The parts of a SACK, NR-SACK or SHUTDOWN that matter to the sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SackView<'a> {
    pub cumulative: Serial,
    /// `None` in a SHUTDOWN, which contains neither the window nor gap blocks.
    pub a_rwnd: Option<u32>,
    /// Number of packets that the SACK acknowledges; 0 if not specified.
    pub packets: u32,
    pub renegable: &'a [GapBlock],
    pub kept: &'a [GapBlock],
    /// TSNs received more than once.
    pub duplicates: &'a [Serial],
    /// True if the SACK has no room for more gap blocks, so that TSNs above its last one are not reneged.
    pub full: bool,
}

/// The result of processing a SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SackOutcome {
    /// The SACK was used; true if the cumulative TSN advanced.
    Taken(bool),
    /// The SACK is older than the newest one.
    Ignored,
    /// The SACK acknowledges TSNs that have not been sent.
    Invalid,
}

/// Number of TSNs before a reset of the TSNs that a late SACK may acknowledge.
const MAX_LATE_TSNS: u32 = 1 << 20;

impl Outbound {
    /// Processes a SACK.
    pub fn handle_sack(&mut self, core: &mut Core, now: Time, sack: &SackView) -> SackOutcome {
        let mut change = core::mem::take(&mut self.change);
        change.clear();
        let verdict = self.take_sack(core, now, sack, &mut change);
        self.change = change;
        if core.sends_copies && verdict != SackOutcome::Invalid {
            self.credit_duplicates(core, now, sack.duplicates);
        }
        verdict
    }

    fn take_sack(&mut self, core: &mut Core, now: Time, sack: &SackView, change: &mut Change) -> SackOutcome {
        let (base, next) = (self.sent.base(), self.sent.next_tsn());
        let cumulative = sack.cumulative.unwrap_near(base);
        // A SACK sent before the reset of the TSNs appears as far ahead as it is behind.
        let late = |last: Serial| last.0.wrapping_sub(sack.cumulative.0) < MAX_LATE_TSNS;
        if self.before_reset.is_some_and(late) && (cumulative >= next || cumulative + 1 < base) {
            return SackOutcome::Ignored;
        }
        if cumulative >= next {
            return SackOutcome::Invalid;
        }
        self.process_duplicates(core, now, sack.duplicates);
        if cumulative + 1 < base {
            return SackOutcome::Ignored;
        }
        let advanced = cumulative >= base;
        if sack.a_rwnd.is_some() {
            self.compare(cumulative, sack, change);
        }
        if change.middle.last().is_some_and(|&(_, end)| end > next) {
            return SackOutcome::Invalid;
        }
        if !advanced && change.fresh.is_empty() && !change.taken_back.is_empty() {
            return SackOutcome::Ignored;
        }
        self.begin_summaries(core);
        self.advance_to(core, now, cumulative);
        for &(start, end) in &change.fresh {
            for tsn in start..end {
                self.acknowledge(core, tsn, (now, change.kept));
            }
        }
        for &(start, end) in &change.taken_back {
            for tsn in start..end {
                self.renege(core, tsn, now);
            }
        }
        if sack.a_rwnd.is_some() {
            self.remember(core, cumulative, sack, change);
        }
        if !self.gaps.is_empty() || !core.gap.is_idle() {
            let first = (!self.gaps.is_empty()).then(|| self.sent.base());
            core.gap.note(now, first, |first| Some(usize::from(self.sent.get(first)?.path)));
        }
        self.finish(core, now, sack, advanced);
        SackOutcome::Taken(advanced)
    }

    /// Computes the changes that a SACK makes to the known runs. Most of them are unchanged: only those
    /// between the equal ones at both ends are compared in detail.
    fn compare(&mut self, cumulative: u64, sack: &SackView, change: &mut Change) {
        clip(&mut self.gaps, cumulative + 1);
        // A chunk that is renegable in one SACK may be non-renegable in the next.
        self.renegable |= !sack.renegable.is_empty();
        self.mixed |= self.renegable && !sack.kept.is_empty();
        let known = &self.gaps;
        let list = if sack.renegable.is_empty() { sack.kept } else { sack.renegable };
        let same = |(block, run): &(&GapBlock, &(u64, u64))| {
            cumulative + u64::from(block.start) == run.0 && cumulative + u64::from(block.end) + 1 == run.1
        };
        let (mut prefix, mut suffix) = (0, 0);
        if !self.mixed {
            prefix = list.iter().zip(known).take_while(same).count();
            // A full SACK may have omitted blocks at its end.
            if !sack.full {
                suffix =
                    list[prefix..].iter().rev().zip(known[prefix..].iter().rev()).take_while(same).count();
            }
        }
        let Change { middle, fresh, taken_back, .. } = change;
        if self.mixed {
            absolute(middle, cumulative, sack.renegable, sack.kept);
        } else {
            absolute(middle, cumulative, &list[prefix..list.len() - suffix], &[]);
        }
        let before = prefix.checked_sub(1).map(|last| known[last].1);
        let behind = known.get(known.len() - suffix);
        let in_place = middle.first().zip(middle.last()).is_none_or(|(first, last)| {
            before.is_none_or(|end| end < first.0) && behind.is_none_or(|&(start, _)| last.1 < start)
        });
        if !in_place {
            (prefix, suffix) = (0, 0);
            absolute(middle, cumulative, list, &[]);
        }
        let old = &known[prefix..known.len() - suffix];
        let limit = match middle.last() {
            Some(&(_, end)) if sack.full => end,
            None if sack.full => before.unwrap_or(0),
            _ => u64::MAX,
        };
        difference(middle, old, |start, end| fresh.push((start, end)));
        difference(old, middle, |start, end| {
            taken_back.extend((start < limit).then_some((start, end.min(limit))));
        });
        retain_tail(middle, old, limit);
        (change.prefix, change.suffix) = (prefix, suffix);
        change.kept = sack.renegable.is_empty() && !self.mixed;
    }

    /// Stores the runs for the next SACK.
    fn remember(&mut self, core: &mut Core, cumulative: u64, sack: &SackView, change: &mut Change) {
        let behind = self.gaps.len() - change.suffix;
        if behind - change.prefix == change.middle.len() {
            self.gaps[change.prefix..behind].copy_from_slice(&change.middle);
        } else {
            self.gaps.splice(change.prefix..behind, change.middle.drain(..));
        }
        if self.mixed {
            let mut kept = Runs::new();
            absolute(&mut kept, cumulative, &[], sack.kept);
            self.free_kept(core, kept, cumulative + 1);
        }
    }

    #[inline]
    pub fn begin_summaries(&self, core: &mut Core) {
        for path in &mut core.paths {
            path.burst_left = core.config.max_burst.unwrap_or(u32::MAX);
            let oldest = self.oldest_in_flight(path, core.sends_copies);
            path.summary =
                SackSummary { before: path.in_window(), lowest: u64::MAX, oldest, ..SackSummary::default() };
        }
    }

    /// The oldest transmission in flight on a path; with `copies`, they count.
    #[inline]
    fn oldest_in_flight(&self, path: &mut Path, copies: bool) -> Option<u64> {
        let first = self.sent.front(&mut path.order, path.id.0).map(|flight| flight.sent_as);
        if !copies {
            return first;
        }
        [first, path.copies.first().map(|copy| copy.sent_as)].into_iter().flatten().min()
    }

    /// Removes the chunks up to `cumulative` from the send buffer: all of them were received.
    fn advance_to(&mut self, core: &mut Core, now: Time, cumulative: u64) {
        while self.sent.base() <= cumulative {
            let Some(chunk) = self.sent.pop(&mut core.paths) else { return };
            if chunk.flags.contains(DataFlags::END) && !chunk.flags.contains(DataFlags::UNORDERED) {
                self.queue.acknowledged(chunk.stream);
            }
            if chunk.state.is_open() {
                Self::credit(core, self.sent.base() - 1, &chunk, now);
            }
            if !matches!(chunk.state, ChunkState::Freed | ChunkState::Abandoned) {
                self.queue.release(chunk.serial, chunk.len.into());
            }
        }
    }

    /// Processes a chunk that a gap block covers; non-renegable if `kept`.
    fn acknowledge(&mut self, core: &mut Core, tsn: u64, (now, kept): (Time, bool)) {
        if let Some(before) = self.sent.acknowledge(&mut core.paths, tsn, kept) {
            Self::credit(core, tsn, &before, now);
            if kept {
                self.queue.release(before.serial, before.len.into());
            }
        } else if kept {
            self.free(core, tsn);
        }
    }

    /// Marks a chunk as in flight again that the receiver has discarded after its acknowledgement; the path's timer
    /// runs. RFC 9260 §6.2.1 D iii counts one missing report; here only data sent from now on is counted.
    fn renege(&mut self, core: &mut Core, tsn: u64, now: Time) {
        let sent_as = self.transmissions;
        let Some(chunk) = self.sent.renege(&mut core.paths, tsn, sent_as) else { return };
        let path = &mut core.paths[usize::from(chunk.path)];
        path.order.push_back(Flight { tsn, sent_as });
        if !chunk.fast {
            path.watch.push_back(Flight { tsn, sent_as });
        }
        path.start_timer(now);
        core.totals.chunks_reneged += 1;
    }

    /// Frees non-renegable chunks after a gap from the send buffer. Used for SACKs that report both kinds separately.
    fn free_kept(&mut self, core: &mut Core, kept: Runs, from: u64) {
        clip(&mut self.kept, from);
        let mut fresh = Runs::new();
        difference(&kept, &self.kept, |start, end| fresh.push((start, end)));
        for (start, end) in fresh {
            for tsn in start..end {
                self.free(core, tsn);
            }
        }
        self.kept = kept;
    }

    fn free(&mut self, core: &mut Core, tsn: u64) {
        if let Some(chunk) = self.sent.free(&mut core.paths, tsn) {
            self.queue.release(chunk.serial, chunk.len.into());
        }
    }

    /// Adds a newly acknowledged chunk, in flight or lost, to the summary of the path that carried it last.
    #[inline]
    fn credit(core: &mut Core, tsn: u64, chunk: &Chunk, now: Time) {
        if core.sends_copies {
            Self::credit_attributed(core, tsn, chunk, now);
        } else {
            Self::credit_carrier(core, tsn, chunk, now);
        }
    }

    /// Adds a chunk of which several paths may have a transmission in flight.
    #[cold]
    #[inline(never)]
    fn credit_attributed(core: &mut Core, tsn: u64, chunk: &Chunk, now: Time) {
        let attributed = core.attribute(tsn, chunk, now);
        Self::credit_carrier(core, tsn, &attributed, now);
    }

    #[inline]
    fn credit_carrier(core: &mut Core, tsn: u64, chunk: &Chunk, now: Time) {
        core.rate_delivered(chunk, now);
        let path = &mut core.paths[usize::from(chunk.path)];
        path.summary.acked += u64::from(path.chunk_len(chunk.len));
        path.counters.bytes_acked += u64::from(chunk.len);
        path.summary.answered = path.summary.answered.max((!chunk.moved).then_some(chunk.sent_at));
        // It is unknown which of several transmissions arrived (Karn's algorithm).
        if chunk.transmissions == 1 {
            path.summary.lowest = path.summary.lowest.min(chunk.sent_as);
            if chunk.sent_as > path.summary.highest {
                path.summary.highest = chunk.sent_as;
                path.summary.sent_at = chunk.sent_at;
            }
        }
        core.leave_phase(chunk.recovery);
        if chunk.recovery != 0 && matches!(chunk.state, ChunkState::Lost(_)) {
            Self::note_arrival(core, tsn, chunk);
        }
    }

    /// Completes a SACK after all its chunks are processed: round-trip times, windows, timers, losses and the receive
    /// window.
    fn finish(&mut self, core: &mut Core, now: Time, sack: &SackView, advanced: bool) {
        self.finish_paths(core, now, advanced);
        self.settle_spurious(core, now);
        count_missing(core, sack.packets, self.changeover.is_active(self.sent.base()));
        for at in 0..core.paths.len() {
            self.settle_probe(core, at, now);
            // Split fast retransmit: a path without a newly acknowledged chunk gets no missing reports.
            let path = &core.paths[at];
            if !core.config.cmt || path.summary.acked > 0 || path.reordering_due.is_some() {
                self.detect_losses(core, at, now);
            }
        }
        self.report_rates(core, now);
        if let Some(a_rwnd) = sack.a_rwnd {
            self.advertised = u64::from(a_rwnd);
            self.widest = self.widest.max(self.advertised);
        }
        self.check_probe(core);
        self.notify_space(core);
        core.observe_start_up(self.widest);
        self.reschedule(core, now);
    }

    /// Processes the summaries of the paths on which chunks were newly acknowledged.
    pub fn finish_paths(&mut self, core: &mut Core, now: Time, cumulative_advanced: bool) {
        for at in 0..core.paths.len() {
            if core.paths[at].summary.acked > 0 {
                self.finish_path(core, at, now, cumulative_advanced);
            }
        }
    }

    #[inline]
    fn finish_path(&mut self, core: &mut Core, at: usize, now: Time, cumulative_advanced: bool) {
        let path = &mut core.paths[at];
        let oldest = self.oldest_in_flight(path, core.sends_copies);
        path.peak.update(now, path.counters.bytes_acked, path.rtt.srtt());
        let moved = path.summary.oldest.is_some() && oldest != path.summary.oldest;
        path.summary.advanced = if core.config.cmt { moved } else { cumulative_advanced };
        // A SACK does not identify the transmission of a retransmitted chunk. A suspect path recovers only with a chunk
        // sent once; other paths use the last transmission (§8.2).
        let (highest, sent_at) = (path.summary.highest, path.summary.sent_at);
        let newest = if path.suspect { (highest > 0).then_some(sent_at) } else { path.summary.answered };
        let answers = newest.is_some_and(|sent_at| path.doubted.is_none_or(|since| sent_at >= since));
        if answers {
            path.forget_errors();
            path.heard = now;
        }
        let mut sample = None;
        if highest > 0 {
            let rtt = now.since(sent_at);
            sample = Some(rtt);
            path.latest_rtt = rtt;
            if !core.sends_copies {
                path.copies.overtaken(highest);
            }
            if highest >= path.measure_from {
                path.rtt.sample(rtt);
                path.measure_from = self.transmissions + 1;
            }
        }
        if answers && !path.healthy() {
            core.confirm(now, at);
        }
        let path = &mut core.paths[at];
        let cwnd = core.congestion.window(path.id);
        if path.summary.advanced || path.recovery.is_some() {
            let cwnd_limited = path.fills(cwnd, path.summary.before, core.config.overshoot);
            let srtt = path.rtt.srtt();
            let mut ack =
                Ack { now, path: path.id, acked: path.summary.acked, rtt: sample, srtt, cwnd_limited };
            // A SACK over a fast path may acknowledge many packets of a slow path, whose own SACKs it has overtaken.
            // If the window grows by a limited number of packets per SACK, each two packets count as acknowledged by
            // their own SACK, as in §7.2.1 for a single path.
            let limited = core.config.cmt && core.config.abc_limit.is_some();
            let share = if limited { 2 * u64::from(path.room) } else { u64::MAX };
            let mut left = ack.acked;
            while left > 0 {
                ack.acked = left.min(share);
                left -= ack.acked;
                core.congestion.on_ack(&ack);
                ack.rtt = None;
            }
        }
        if let Some(recovery) = path.recovery
            && recovery.pending == 0
            && oldest.is_none_or(|sent_as| sent_as > recovery.exit)
        {
            path.recovery = None;
            core.congestion.on_recovered(now, path.id);
        }
        if path.totals.in_flight() == 0 {
            path.retransmission_timer = None;
        } else if moved {
            path.retransmission_timer = Some(now + path.rtt.rto());
        }
        if !matches!(path.silence, Silence::Answer { probe: Some(_), .. }) {
            core.watch_silence(at, now);
        }
    }

    /// Ends a zero-window probe that was acknowledged. If the window opens before, the receiver has dropped the
    /// probe.
    fn check_probe(&mut self, core: &mut Core) {
        let open = self.window() > 0;
        match &mut self.probe {
            Probe::Sent { tsn, answered } => {
                *answered = true;
                let tsn = *tsn;
                match self.sent.get(tsn) {
                    Some(chunk) if chunk.state == ChunkState::InFlight => {
                        if self.advertised >= u64::from(chunk.len) {
                            self.probe = Probe::None;
                            let at = usize::from(chunk.path);
                            self.lose(core, tsn, RetransmissionReason::Probe);
                            core.paths[at].resend.insert(tsn);
                            core.paths[at].resend_now = true;
                        }
                    }
                    Some(chunk) if matches!(chunk.state, ChunkState::Lost(_)) => {}
                    _ => self.probe = Probe::None,
                }
            }
            Probe::Waiting(_) | Probe::Due if open => self.probe = Probe::None,
            _ => {}
        }
    }
}

/// Counts missing reports with the highest TSN newly acknowledged (per path with split fast retransmit), the number of
/// packets of a delayed SACK (DAC), and the rule for recovery (RFC 9260 §7.2.4). While the path of new data is
/// `changing_over`, the same rules apply without concurrent transfer.
pub(crate) fn count_missing(core: &mut Core, packets: u32, changing_over: bool) {
    if !core.config.cmt && !changing_over {
        let highest = core.paths.iter().map(|p| p.summary.highest).max().unwrap_or(0);
        for path in &mut core.paths {
            path.highest_acked = path.highest_acked.max(highest);
            let recovering = path.recovery.is_some() && path.summary.advanced;
            path.reports.push(if recovering { path.highest_acked } else { highest });
        }
        return;
    }
    let answered = core.paths.iter().filter(|p| p.summary.highest > 0).count();
    let dac = core.config.dac && core.config.cmt;
    for path in &mut core.paths {
        if path.summary.highest == 0 {
            continue;
        }
        path.highest_acked = path.highest_acked.max(path.summary.highest);
        let recovering = path.recovery.is_some() && path.summary.advanced;
        path.reports.push(if recovering { path.highest_acked } else { path.summary.highest });
        // A SACK for several packets of one path counts as one missing report per packet, for the chunks sent before
        // all of them.
        if dac && answered == 1 {
            for _ in 1..packets {
                path.reports.push(path.summary.lowest);
            }
        }
    }
}
