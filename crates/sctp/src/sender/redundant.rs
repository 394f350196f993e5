//! A scheduler that sends all data on every path (`redundant`).
//!
//! Each path has a cursor in the TSNs: it carries the chunks in flight from there on, and new chunks once it has carried
//! all others. So the fastest path leads, and each path with room repeats the chunks that are not acknowledged yet.
//!
//! The scoreboard counts one transmission of each chunk, at first that of the leading path. The others are [`Copies`]
//! of their paths, and use their windows. An acknowledgement answers one transmission, and each report of a duplicate
//! another one. SACKs do not name the packet that arrived. The sender assumes the path over which the SACK came, since
//! the receiver answers on the path of its data (RFC 9260 §6.4). It assumes another path if only the age of the
//! transmission there is near the round-trip time of its path. With equally fast paths, some answers count for the wrong path.
//!
//! If the counted transmission of a chunk is lost, one of its copies in flight takes its place. The chunk is retransmitted
//! when all copies are lost. A path reduces its window for a lost copy as for any other chunk.
//!
//! [`Copies`]: crate::path::copies::Copies

use super::outbound::{Outbound, Probe};
use super::outstanding::Chunk;
use super::sack::count_missing;
use crate::common::Core;
use crate::path::copies::{ChunkCopy, Copies};
use crate::path::state::{Flight, Path};
use crate::totals::ChunkState;
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{DecisionReason, SchedulingDecision};
use anabranch_multipath::PathId;
use anabranch_multipath::scheduler::{Decision, Offer, PathState};
use anabranch_wire::sctp;
use anabranch_wire::seq::Serial;
use std::collections::VecDeque;

impl Outbound {
    /// The path of the next packet, with copies or, after them, with new data; `len` is the length of the next new
    /// fragment.
    pub fn choose_path_of_copies(
        &mut self,
        core: &mut Core,
        (len, now): (Option<u32>, Time),
    ) -> Option<usize> {
        if self.probe == Probe::Due || !core.paths.iter().any(Path::active) {
            return len.and_then(|len| self.choose_path(core, (len, now)));
        }
        let new = len.filter(|&len| u64::from(len) <= self.window() && !self.held_back(core));
        self.states.clear();
        for at in 0..core.paths.len() {
            let next = self.next_copy(core, at).map(|(_, chunk)| chunk.len).or(new);
            let usable = core.in_use(at);
            let path = &core.paths[at];
            let (cwnd, outstanding) = (core.congestion.window(path.id), path.in_window());
            let admitted = usable && next.is_some_and(|len| self.may_carry(core, (at, now), len));
            self.states.push(PathState {
                id: path.id,
                usable,
                backup: false,
                cwnd,
                outstanding,
                queueable: if admitted { cwnd - outstanding } else { 0 },
                queued: path.totals.buffered(),
                recovering: path.recovery.is_some() || self.has_lost_chunks(path),
                srtt: path.rtt.srtt(),
                rtt_variation: path.rtt.rttvar(),
                ssthresh: u64::MAX,
                pacing_rate: None,
                mss: path.mss,
            });
        }
        // Copies lie within the receive window.
        let offer = Offer {
            now,
            bytes: self.used(),
            window: self.widest,
            send_window: self.advertised.min(core.config.send_buffer),
            repeated: false,
        };
        match core.scheduler.select(&offer, &self.states) {
            Decision::Send(PathId(at)) => Some(usize::from(at)),
            Decision::Wait => None,
        }
    }

    /// The first chunk in flight that a path has not carried and that fits the path's packets.
    fn next_copy(&self, core: &mut Core, at: usize) -> Option<(u64, Chunk)> {
        let path = &mut core.paths[at];
        let fits = |chunk: &Chunk| sctp::padded(self.header() + chunk.len) <= path.room;
        let mut tsn = path.cursor.max(self.sent.base());
        let found = loop {
            let Some(chunk) = self.sent.get(tsn) else { break None };
            if chunk.state == ChunkState::InFlight && usize::from(chunk.path) != at && fits(chunk) {
                break Some((tsn, *chunk));
            }
            tsn += 1;
        };
        path.cursor = tsn;
        found
    }

    /// Fills a packet for path `at` with copies that fit the remaining `room`. False if the path has carried all chunks.
    pub fn fill_with_copies(
        &mut self,
        core: &mut Core,
        (at, now): (usize, Time),
        room: u32,
        chunks: &mut sctp::Chunks,
    ) -> bool {
        let (mut left, mut carried) = (room, 0_u32);
        let mut found = false;
        while let Some((tsn, chunk)) = self.next_copy(core, at) {
            found = true;
            let wire = sctp::padded(self.header() + chunk.len);
            if wire > left || carried > 0 && !core.window_admits(&core.paths[at], chunk.len) {
                break;
            }
            self.launch_copy(core, (tsn, &chunk), (at, now));
            chunks.push(self.emit(tsn, &chunk));
            left -= wire;
            carried += 1;
        }
        if carried > 0 {
            let path = &mut core.paths[at];
            path.burst_left = path.burst_left.saturating_sub(1);
            path.counters.data_packets_sent += 1;
            path.counters.reinjections += 1;
        }
        found
    }

    /// Records the transmission of a copy on a path.
    fn launch_copy(&mut self, core: &mut Core, (tsn, chunk): (u64, &Chunk), (at, now): (usize, Time)) {
        self.transmissions += 1;
        let Chunk { offset, len, .. } = *chunk;
        if let Some(decisions) = &mut core.decisions {
            let (path, reason) = (Some(PathId(at as u8)), DecisionReason::Copy);
            decisions.push_back(SchedulingDecision { at: now, path, offset, len, reason });
        }
        let path = &mut core.paths[at];
        let sent = Chunk { sent_at: now, sent_as: self.transmissions, ..*chunk };
        path.copies.push(sent.as_copy(tsn, path.chunk_len(len)));
        path.cursor = tsn + 1;
        path.counters.bytes_sent += u64::from(len);
        path.counters.count_repeated(DecisionReason::Copy, len.into());
        path.last_sent = now;
        core.rate_sent((self.transmissions, len), None, (at, now));
    }

    /// Processes the duplicates reported by the receiver: each is the arrival of a copy.
    pub fn credit_duplicates(&mut self, core: &mut Core, now: Time, duplicates: &[Serial]) {
        if duplicates.is_empty() {
            return;
        }
        self.begin_summaries(core);
        for duplicate in duplicates {
            core.credit_copy(duplicate.unwrap_near(self.sent.base()), now);
        }
        self.finish_paths(core, now, false);
        count_missing(core, 1, false);
        for at in 0..core.paths.len() {
            if core.paths[at].summary.acked > 0 {
                self.detect_losses(core, at, now);
            }
        }
        self.report_rates(core, now);
    }

    /// Lets copies in flight replace lost transmissions, whose chunks then need no retransmission.
    pub fn replace_lost(&mut self, core: &mut Core, now: Time) {
        for at in 0..core.paths.len() {
            let lost = core::mem::take(&mut core.paths[at].resend);
            for tsn in lost {
                let is_lost =
                    self.sent.get(tsn).is_some_and(|chunk| matches!(chunk.state, ChunkState::Lost(_)));
                if is_lost && !self.replace(core, tsn, now) {
                    core.paths[at].resend.insert(tsn);
                }
            }
            let path = &mut core.paths[at];
            path.resend_now &= !path.resend.is_empty();
        }
    }

    /// Lets a copy of a lost chunk replace the lost transmission. Returns false if there is no copy.
    fn replace(&mut self, core: &mut Core, tsn: u64, now: Time) -> bool {
        let mut copies = (0..core.paths.len()).filter_map(|at| Some((at, core.paths[at].copies.take(tsn)?)));
        let Some((at, copy)) = copies.next() else { return false };
        self.sent.replace(&mut core.paths, &copy, at);
        let path = &mut core.paths[at];
        let flight = Flight { tsn, sent_as: copy.sent_as };
        insert(&mut path.order, flight);
        insert(&mut path.watch, flight);
        path.start_timer(now);
        true
    }

    /// Counts the copies of a path that were sent before transmission `below` as lost.
    pub fn lose_copies(&mut self, core: &mut Core, (at, now): (usize, Time), below: u64) {
        while let Some(copy) = core.paths[at].copies.first().copied().filter(|copy| copy.sent_as < below) {
            // A copy that has arrived may count as lost here, if its acknowledgement counted for another path. The
            // report of the duplicate corrects that somewhat later.
            let path = &mut core.paths[at];
            let reordering_window = path.reordering_window().max(path.latest_rtt.div(4));
            if copy.sent_at + path.latest_rtt + reordering_window > now {
                return;
            }
            path.copies.take_first();
            self.respond_to_lost_copy(core, (at, now), &copy);
        }
    }

    /// Adds a lost copy to the path's recovery phase. No acknowledgement of it will arrive.
    fn respond_to_lost_copy(&mut self, core: &mut Core, (at, now): (usize, Time), copy: &ChunkCopy) {
        self.enter_recovery(core, at, now);
        if let Some(recovery) = &mut core.paths[at].recovery {
            recovery.pending = recovery.pending.saturating_sub(1);
        }
        core.rate_lost_copy(copy, at, now);
    }

    /// Marks copies as lost that were sent a retransmission timeout ago. If no later transmission was acknowledged,
    /// the path has timed out, unless it has chunks on the scoreboard, whose timer decides then.
    pub fn expire_redundant_copies(&mut self, core: &mut Core, at: usize, now: Time) {
        let path = &core.paths[at];
        let due = now - path.rtt.rto();
        let Some(last) = path.copies.last_before(due) else { return };
        let silent = path.heard <= last && path.totals.in_flight() == 0;
        if !silent {
            while let Some(copy) = core.paths[at].copies.first().copied().filter(|copy| copy.sent_at <= due) {
                core.paths[at].copies.take_first();
                self.respond_to_lost_copy(core, (at, now), &copy);
            }
            return;
        }
        core.paths[at].counters.timeouts += 1;
        Self::reduce_after_timeout(core, at, now);
        core.paths[at].rtt.back_off();
        let copies = core::mem::take(&mut core.paths[at].copies);
        core.rate_lost_copies(copies, at, now);
        core.path_error(now, at);
        core.move_lost_chunks();
    }
}

impl Core {
    /// Determines which transmission of a chunk an acknowledgement answers, and returns the chunk with this
    /// transmission as its only one. If that is a copy, the transmission on the scoreboard becomes a copy
    /// instead.
    pub fn attribute(&mut self, tsn: u64, chunk: &Chunk, now: Time) -> Chunk {
        let owner = usize::from(chunk.path);
        let Some((at, sent_at)) = self.answered_copy(tsn, now) else { return *chunk };
        if self.rank(owner, chunk.sent_at, now) <= self.rank(at, sent_at, now) {
            return *chunk;
        }
        let Some(copy) = self.paths[at].copies.take(tsn) else { return *chunk };
        if chunk.state == ChunkState::InFlight {
            let path = &mut self.paths[owner];
            path.copies.push(chunk.as_copy(tsn, path.chunk_len(chunk.len)));
        }
        chunk.sent_only_as(&copy, at)
    }

    /// Path and time of the copy that a SACK answers.
    fn answered_copy(&self, tsn: u64, now: Time) -> Option<(usize, Time)> {
        let copies = self.paths.iter().enumerate();
        let copies = copies.filter_map(|(at, path)| Some((at, path.copies.find(tsn)?.sent_at)));
        copies.min_by_key(|&(at, sent_at)| self.rank(at, sent_at, now))
    }

    /// Order of the transmissions that a SACK may answer: first transmissions whose age is near the
    /// round-trip time of their path, then the transmission on the path of the SACK, then the oldest one.
    fn rank(&self, at: usize, sent_at: Time, now: Time) -> (bool, bool, Time) {
        let path = &self.paths[at];
        let (age, latest) = (now.since(sent_at), path.latest_rtt);
        let is_unlikely = path.rtt.srtt().is_some_and(|srtt| {
            let (shortest, longest) = (srtt.min(latest), srtt.max(latest));
            let least = path.rtt.min_rtt().max(shortest.saturating_sub(shortest.div(4)));
            age < least || age > longest + longest.div(2) + path.rtt.rttvar().saturating_mul(2)
        });
        (is_unlikely, self.sack_path != Some(at), sent_at)
    }

    /// Adds a copy that arrived, if there is one, to the summary of its path.
    fn credit_copy(&mut self, tsn: u64, now: Time) {
        let Some((at, _)) = self.answered_copy(tsn, now) else { return };
        let path = &mut self.paths[at];
        let Some(copy) = path.copies.take(tsn) else { return };
        let ChunkCopy { sent_as, sent_at, len, bytes, .. } = copy;
        path.counters.bytes_acked += u64::from(len);
        if let Some(rate) = &mut path.rate {
            rate.delivered(now, sent_as..sent_as + 1);
        }
        let summary = &mut path.summary;
        summary.acked += u64::from(bytes);
        summary.answered = summary.answered.max(Some(sent_at));
        summary.lowest = summary.lowest.min(sent_as);
        if sent_as > summary.highest {
            (summary.highest, summary.sent_at) = (sent_as, sent_at);
        }
    }

    /// Informs the congestion control of a lost copy.
    fn rate_lost_copy(&mut self, copy: &ChunkCopy, at: usize, now: Time) {
        if let Some(rate) = &mut self.paths[at].rate {
            rate.lost(&mut *self.congestion, now, copy.sent_as..copy.sent_as + 1);
        }
    }

    /// Informs the congestion control of lost copies. Moved chunks have no rate samples.
    pub fn rate_lost_copies(&mut self, mut copies: Copies, at: usize, now: Time) {
        if !self.sends_copies {
            return;
        }
        while let Some(copy) = copies.take_first() {
            self.rate_lost_copy(&copy, at, now);
        }
    }
}

/// Inserts a transmission into a queue in the order of transmission.
fn insert(queue: &mut VecDeque<Flight>, flight: Flight) {
    let at = queue.partition_point(|other| other.sent_as < flight.sent_as);
    queue.insert(at, flight);
}
