//! Losses and the responses to them: fast retransmission (RFC 9260 §7.2.4), the retransmission timer (§6.3.3), the path
//! of a retransmission, and chunk rescheduling.

use super::outbound::{Outbound, Probe};
use super::outstanding::Chunk;
use crate::common::Core;
use crate::config::RetransmissionPath;
use crate::path::silence::Silence;
use crate::path::state::{Flight, Path, Reachability, Recovery};
use crate::totals::{ChunkState, RetransmissionReason};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::limits::Limit;
use anabranch_multipath::buffer::{Occupancy, Rescheduling, Sides};
use anabranch_multipath::congestion::{Loss, LossKind, PenaltyInSlowStart, Timeout};
use anabranch_wire::sctp;
use core::cmp::Reverse;

/// Round trips without blocking after which a path that blocked the others counts as a new path.
const MAX_ROUND_TRIPS_BETWEEN_MOVES: u64 = 3;

impl Outbound {
    /// Marks a chunk in flight as lost; the caller chooses the path of the retransmission.
    pub fn lose(&mut self, core: &mut Core, tsn: u64, why: RetransmissionReason) {
        self.sent.lose(&mut core.paths, tsn, why);
        self.limits.note_lost(tsn);
    }

    /// Marks the chunks of a path with enough missing reports as lost. They are at the front of its queue. On a path
    /// that reorders packets, such a chunk is marked when a later SACK arrives, not by a timer between two SACKs: at
    /// that time the queue that dropped the first copy would still be full. The timer is for a path without further
    /// SACKs.
    pub fn detect_losses(&mut self, core: &mut Core, at: usize, now: Time) {
        let below = core.paths[at].reports.lost_below();
        let mut target = None;
        loop {
            let path = &mut core.paths[at];
            path.reordering_due = None;
            // The numbers ascend, so all later entries have higher numbers.
            if path.watch.front().is_none_or(|flight| flight.sent_as >= below) {
                break;
            }
            let Some(flight) = self.sent.front(&mut path.watch, path.id.0) else { break };
            if flight.sent_as >= below {
                break;
            }
            if path.tolerance > 0
                && let Some(chunk) = self.sent.get(flight.tsn)
                && let due = chunk.sent_at + path.latest_rtt + path.reordering_window()
                && due > now
            {
                path.reordering_due = Some(due + path.latest_rtt.div(4));
                break;
            }
            path.watch.pop_front();
            let lost = self.sent.lose(&mut core.paths, flight.tsn, RetransmissionReason::Fast);
            self.limits.note_lost(flight.tsn);
            let phase = self.enter_recovery(core, at, now);
            self.count_lost(core, (at, phase), flight.tsn, true);
            if let Some(chunk) = lost {
                core.rate_lost(&chunk, now);
            }
            let to = *target.get_or_insert_with(|| retransmission_path(core, at, false));
            let to = self.path_for(core, flight.tsn, to);
            core.paths[to].resend.insert(flight.tsn);
            core.paths[to].resend_now = true;
        }
        if core.sends_copies {
            self.lose_copies(core, (at, now), below);
        }
        let path = &mut core.paths[at];
        if path.totals.in_flight() == 0 {
            path.retransmission_timer = None;
        }
    }

    /// Marks the chunks in flight that no longer fit the path's packets as lost: they were dropped.
    pub fn lose_too_big(&mut self, core: &mut Core, at: usize) {
        let room = core.paths[at].room;
        let too_big = |flight: &Flight| {
            let chunk = self.sent.get(flight.tsn).filter(|_| self.sent.live(*flight, at as u8));
            chunk.is_some_and(|chunk| sctp::padded(self.header() + chunk.len) > room)
        };
        let dropped: Vec<Flight> = core.paths[at].order.iter().copied().filter(too_big).collect();
        for flight in dropped {
            self.lose(core, flight.tsn, RetransmissionReason::TooBig);
            core.totals.chunks_too_big += 1;
            let to = self.path_for(core, flight.tsn, at);
            core.paths[to].resend.insert(flight.tsn);
            core.paths[to].resend_now = true;
        }
        if core.paths[at].totals.in_flight() == 0 {
            core.paths[at].retransmission_timer = None;
        }
    }

    /// Retransmits data that a path with errors has lost, after the path has answered a heartbeat sent at time
    /// `sent`. Data sent before that and not acknowledged was lost while the path did not work. It need not wait for
    /// the timer, and the errors have already reduced the window. A delayed SACK is taken into account.
    pub fn resend_unanswered(&mut self, core: &mut Core, now: Time, (at, sent): (usize, Time)) {
        let before = |tsn: u64| {
            let chunk = self.sent.get(tsn);
            chunk.is_some_and(|chunk| chunk.sent_at + core.config.sack_delay < sent)
        };
        let live = |flight: &Flight| self.sent.live(*flight, at as u8);
        let lost: Vec<Flight> = core.paths[at]
            .order
            .iter()
            .copied()
            .filter(|flight| live(flight) && before(flight.tsn))
            .collect();
        if lost.is_empty() {
            return;
        }
        for flight in lost {
            self.lose(core, flight.tsn, RetransmissionReason::Timeout);
            let to = self.path_for(core, flight.tsn, at);
            core.paths[to].resend.insert(flight.tsn);
            core.paths[to].resend_now = true;
            if let Some(&chunk) = self.sent.get(flight.tsn) {
                core.rate_lost(&chunk, now);
            }
        }
        if core.paths[at].totals.in_flight() == 0 {
            core.paths[at].retransmission_timer = None;
        }
    }

    /// True if a chunk with `len` bytes of payload can be sent on a path: it fits a packet, or routers may fragment the
    /// packet (IPv4).
    fn fits(&self, path: &Path, len: u32) -> bool {
        path.remote.is_ipv4() || sctp::padded(self.header() + len) <= path.room
    }

    /// The path of a retransmission: `to`, unless the chunk no longer fits its packets and another path can carry it.
    fn path_for(&self, core: &Core, tsn: u64, to: usize) -> usize {
        let len = self.sent.get(tsn).map_or(0, |chunk| chunk.len);
        let mut others = (0..core.paths.len()).filter(|&at| core.in_use(at));
        if self.fits(&core.paths[to], len) {
            return to;
        }
        others.find(|&at| self.fits(&core.paths[at], len)).unwrap_or(to)
    }

    /// Returns true if some chunk fits no path any more, so that it can never be delivered.
    pub fn is_stuck(&self, core: &Core) -> bool {
        let there = |path: &&Path| path.reachability != Reachability::Removed;
        if core.paths.iter().any(|path| path.remote.is_ipv4()) {
            return false;
        }
        let longest = self.sent.longest_open();
        !core.paths.iter().filter(there).any(|path| self.fits(path, longest))
    }

    /// Adds a loss to the path's recovery phase; starts one if there is none. The window is reduced once per phase.
    pub fn enter_recovery(&mut self, core: &mut Core, at: usize, now: Time) -> u32 {
        let path = &mut core.paths[at];
        if let Some(recovery) = &mut path.recovery {
            recovery.pending += 1;
            return recovery.phase;
        }
        self.reactions = self.reactions.wrapping_add(1).max(1);
        path.recovery = Some(Recovery { phase: self.reactions, exit: self.transmissions, pending: 1 });
        path.counters.recoveries += 1;
        path.count_recovery_phase();
        self.begin_episode(path, self.reactions, false);
        let in_flight = path.in_flight(core.sends_copies);
        core.congestion.on_loss(&Loss { now, path: path.id, kind: LossKind::FastRetransmit, in_flight });
        self.reactions
    }

    /// Counts a chunk as lost in this recovery phase or timeout of path `at`, and no longer in an earlier one.
    fn count_lost(&mut self, core: &mut Core, (at, reaction): (usize, u32), tsn: u64, fast: bool) {
        if let Some(chunk) = self.sent.get(tsn) {
            core.leave_phase(chunk.recovery);
        }
        self.sent.lost_in(tsn, reaction, fast);
        let episode = &mut core.paths[at].episode;
        if episode.number == reaction {
            episode.lost += 1;
        }
    }

    /// Handles the retransmission timeout of a path: everything in flight on it is lost (RFC 9260 §6.3.3).
    pub fn retransmission_timeout(&mut self, core: &mut Core, at: usize, now: Time) {
        let probing = self.answered_probe(at);
        let path = &mut core.paths[at];
        path.retransmission_timer = None;
        if path.totals.in_flight() == 0 {
            return;
        }
        path.counters.timeouts += 1;
        if !probing {
            Self::reduce_after_timeout(core, at, now);
        }
        let path = &mut core.paths[at];
        path.rtt.back_off();
        path.reordering_due = None;
        path.silence = Silence::Unwatched;
        let copies = core::mem::take(&mut path.copies);
        path.watch.clear();
        let flights = core::mem::take(&mut path.order);
        core.rate_lost_copies(copies, at, now);
        if !probing {
            core.path_error(now, at);
        }
        let to = retransmission_path(core, at, true);
        let why = if probing { RetransmissionReason::Probe } else { RetransmissionReason::Timeout };
        if !probing {
            self.reactions = self.reactions.wrapping_add(1).max(1);
            self.begin_episode(&mut core.paths[at], self.reactions, true);
        }
        for flight in flights {
            if self.sent.live(flight, at as u8) {
                self.lose(core, flight.tsn, why);
                if !probing {
                    self.count_lost(core, (at, self.reactions), flight.tsn, false);
                }
                let here = self.path_for(core, flight.tsn, to);
                core.paths[here].resend.insert(flight.tsn);
                if let Some(&chunk) = self.sent.get(flight.tsn).filter(|_| !probing) {
                    core.rate_lost(&chunk, now);
                }
            }
        }
        core.paths[to].resend_now = true;
        core.move_lost_chunks();
    }

    /// Reduces the window of a path that has timed out.
    pub fn reduce_after_timeout(core: &mut Core, at: usize, now: Time) {
        let path = &mut core.paths[at];
        let repeated = path.rtt.backoff() > 0;
        path.recovery = None;
        Self::rate_timeout(path);
        path.avoids = false;
        path.counters.timeout_reductions += 1;
        path.clock.charge_back(now, now - path.rtt.rto(), Limit::Timeout);
        let in_flight = path.in_flight(core.sends_copies);
        core.congestion.on_timeout(&Timeout { now, path: path.id, repeated, in_flight });
    }

    /// True if only a zero-window probe is in flight and the peer has answered it: this is not an error (RFC 9260 §6.1
    /// A).
    fn answered_probe(&mut self, at: usize) -> bool {
        let Probe::Sent { tsn, answered } = &mut self.probe else { return false };
        let heard = core::mem::take(answered);
        heard
            && self
                .sent
                .get(*tsn)
                .is_some_and(|c| usize::from(c.path) == at && u64::from(c.len) == self.in_flight())
    }

    /// The path that can send lost chunks now. A path that must wait with its lost chunks sends no new data
    /// ([`has_lost_chunks`](Self::has_lost_chunks)).
    pub fn path_to_resend(&mut self, core: &mut Core, now: Time) -> Option<usize> {
        if self.sent.totals().lost_chunks() == 0 {
            return None;
        }
        if core.sends_copies {
            self.replace_lost(core, now);
        }
        (0..core.paths.len()).find(|&at| {
            let Some((_, chunk)) = self.next_lost(&mut core.paths[at]) else { return false };
            let path = &core.paths[at];
            // A chunk larger than the path's packets needs only the window for one packet. Otherwise it would wait
            // forever if the window is smaller.
            let len = chunk.len.min(path.mss);
            path.resend_now || core.window_admits(path, len) && !path.is_paced_out(now)
        })
    }

    /// The earliest lost chunk queued on a path. Entries of chunks that are no longer lost are dropped.
    fn next_lost(&self, path: &mut Path) -> Option<(u64, Chunk)> {
        while let Some(&tsn) = path.resend.first() {
            match self.sent.get(tsn) {
                Some(chunk) if matches!(chunk.state, ChunkState::Lost(_)) => return Some((tsn, *chunk)),
                _ => path.resend.pop_first(),
            };
        }
        None
    }

    /// True if lost chunks are queued on a path: they precede new data (RFC 9260 §6.1 C). Call
    /// [`path_to_resend`](Self::path_to_resend) before, which drops stale entries.
    pub fn has_lost_chunks(&self, path: &Path) -> bool {
        self.sent.totals().lost_chunks() > 0 && !path.resend.is_empty()
    }

    /// Fills a packet for path `at` with lost chunks, the earliest first.
    pub fn refill(
        &mut self,
        core: &mut Core,
        (at, now): (usize, Time),
        room: u32,
        chunks: &mut sctp::Chunks,
    ) {
        let now_or_never = core::mem::take(&mut core.paths[at].resend_now);
        let mut left = room;
        let mut first = None;
        while let Some((tsn, chunk)) = self.next_lost(&mut core.paths[at]) {
            let ChunkState::Lost(why) = chunk.state else { break };
            let wire = sctp::padded(self.header() + chunk.len);
            let full = wire > left || !now_or_never && !core.window_admits(&core.paths[at], chunk.len);
            if full && first.is_some() {
                break;
            }
            // A chunk that fills a packet does not fit after a SACK: the SACK is sent first in its own packet.
            if wire > left && !chunks.is_empty() {
                core.paths[at].resend_now = now_or_never;
                break;
            }
            core.paths[at].resend.pop_first();
            first.get_or_insert(why);
            self.launch_again(core, tsn, (at, now));
            core.totals.chunks_retransmitted += 1;
            chunks.push(self.emit(tsn, &chunk));
            left = left.saturating_sub(wire);
        }
        let counters = &mut core.paths[at].counters;
        match first {
            None => return,
            Some(RetransmissionReason::Fast) => counters.fast_retransmissions += 1,
            Some(RetransmissionReason::Timeout) => counters.timeout_retransmissions += 1,
            Some(RetransmissionReason::Rescheduled) => counters.reinjections += 1,
            Some(RetransmissionReason::Probe | RetransmissionReason::Tail) => counters.probes += 1,
            // A chunk that was too big shows no congestion, and the router's report was counted already.
            Some(RetransmissionReason::TooBig) => {}
        }
        counters.data_packets_sent += 1;
    }

    /// Chunk rescheduling: if chunks acknowledged after a gap fill a path's share of a buffer, this path retransmits
    /// the missing chunks before the first acknowledged one. They precede new data, as the path's window allows. Each
    /// chunk moves at most once. The paths that carried the missing chunks had more data in flight than the buffer
    /// holds, and are penalised.
    pub fn reschedule(&mut self, core: &mut Core, now: Time) {
        let Some(&(first_gap, _)) = self.gaps.first() else { return };
        let from = self.rescheduled_below.max(self.sent.base());
        let rescheduling =
            core.config.rescheduling.sides != Sides::None && core.start_up.is_over() && !core.sends_copies;
        if !core.config.cmt || !rescheduling || from >= first_gap {
            return;
        }
        let Some(to) = self.blocked_path(core) else { return };
        self.rescheduled_below = first_gap;
        for tsn in from..first_gap {
            let Some(chunk) = self.sent.get(tsn).copied() else { return };
            if chunk.state == ChunkState::InFlight && usize::from(chunk.path) != to {
                self.lose(core, tsn, RetransmissionReason::Rescheduled);
                core.totals.chunks_rescheduled += 1;
                core.paths[to].resend.insert(tsn);
                let left = &mut core.paths[usize::from(chunk.path)];
                left.copies.push(chunk.as_copy(tsn, left.chunk_len(chunk.len)));
                core.penalise(now, usize::from(chunk.path));
            }
        }
        for path in core.paths.iter_mut().filter(|path| path.retransmission_timer.is_some()) {
            self.follow_oldest(path);
        }
    }

    /// Restarts a path's timer for its oldest remaining transmission, because an older one was moved.
    fn follow_oldest(&self, path: &mut Path) {
        let front = self.sent.front(&mut path.order, path.id.0);
        let sent_at = front.and_then(|flight| self.sent.get(flight.tsn)).map(|chunk| chunk.sent_at);
        let due = sent_at.map(|sent_at| sent_at + path.rtt.rto());
        path.retransmission_timer = path.retransmission_timer.max(due).filter(|_| due.is_some());
    }

    /// The path whose share of a buffer is full of chunks acknowledged after a gap.
    fn blocked_path(&self, core: &Core) -> Option<usize> {
        let (both, split) = (core.config.rescheduling, core.splitting().sides);
        let sender = Rescheduling { sides: only(both.sides.sender(), Sides::Sender), ..both };
        let receiver = Rescheduling { sides: only(both.sides.receiver(), Sides::Receiver), ..both };
        let shared = self.shared(core);
        // The receiver also holds chunks that the send buffer has already freed.
        let mut received = shared;
        received.total.buffered =
            self.in_flight() + core.paths.iter().map(|path| path.totals.behind_gap()).sum::<u64>();
        // Unordered messages that the receiver has delivered do not use its buffer.
        let held = self.widest - self.advertised;
        core.paths.iter().position(|path| {
            let outstanding = path.totals.in_flight();
            let kept = Occupancy { outstanding, buffered: path.totals.buffered() };
            let waiting =
                Occupancy { outstanding, buffered: outstanding + path.totals.behind_gap().min(held) };
            path.healthy()
                && path.recovery.is_none()
                && (sender.triggers(kept, &shared, split) || receiver.triggers(waiting, &received, split))
        })
    }
}

impl Core {
    /// Halves the window of a path that blocks the others, at most once per round trip (Raiciu2012). Data already in
    /// flight at the first blocking is excluded, because one of its packets may have been lost.
    fn penalise(&mut self, now: Time, at: usize) {
        let path = &mut self.paths[at];
        let round = path.rtt.srtt().unwrap_or(Duration::ZERO);
        let begun = path
            .holds_up
            .filter(|&(_, last)| now <= last + round.saturating_mul(MAX_ROUND_TRIPS_BETWEEN_MOVES));
        let since = begun.map_or(now, |(since, _)| since);
        let again = begun.is_some() && now >= since + round && self.config.penalisation;
        path.holds_up = Some((if again { now } else { since }, now));
        if again {
            self.totals.penalisations += 1;
            path.counters.penalisations += 1;
            path.avoids = false;
            self.congestion.penalise(now, path.id, PenaltyInSlowStart::Bounded);
        }
    }

    /// Removes an acknowledged chunk from the recovery phase or timeout that counted it as lost.
    pub fn leave_phase(&mut self, phase: u32) {
        if phase == 0 {
            return;
        }
        for path in &mut self.paths {
            if let Some(recovery) = path.recovery.as_mut().filter(|recovery| recovery.phase == phase) {
                recovery.pending = recovery.pending.saturating_sub(1);
            }
        }
    }

    /// Moves lost chunks from paths that are not in use to one that is.
    pub fn move_lost_chunks(&mut self) {
        if !self.paths.iter().any(Path::active) {
            // No path is active: the primary path gets all lost chunks.
            let to = self.preferred();
            for at in (0..self.paths.len()).filter(|&at| at != to) {
                let waiting = core::mem::take(&mut self.paths[at].resend);
                self.paths[to].resend.extend(waiting);
            }
            return;
        }
        for at in 0..self.paths.len() {
            if !self.in_use(at) && !self.paths[at].resend.is_empty() {
                let to = retransmission_path(self, at, true);
                let waiting = core::mem::take(&mut self.paths[at].resend);
                self.paths[to].resend.extend(waiting);
                self.paths[at].resend_now = false;
            }
        }
    }
}

const fn only(wanted: bool, side: Sides) -> Sides {
    if wanted { side } else { Sides::None }
}

/// The path for chunks lost on path `at`, after a timeout or a fast retransmission.
fn retransmission_path(core: &Core, at: usize, timeout: bool) -> usize {
    let n = core.paths.len();
    let same_if_alive = if core.in_use(at) { at } else { core.preferred() };
    let active = || (0..n).filter(|&i| core.in_use(i));
    let window = |i: usize| core.congestion.window(core.paths[i].id);
    let chosen = match core.config.retransmission {
        RetransmissionPath::Same => None,
        RetransmissionPath::Alternate if !timeout => None,
        RetransmissionPath::Alternate => (1..n).map(|step| (at + step) % n).find(|&i| core.in_use(i)),
        RetransmissionPath::LargestSsthresh => {
            let rank =
                |i: usize| (core.congestion.ssthresh(core.paths[i].id), window(i), i == at, Reverse(i));
            active().max_by_key(|&i| rank(i))
        }
        RetransmissionPath::LargestWindow => active().max_by_key(|&i| (window(i), i == at, Reverse(i))),
        RetransmissionPath::LowestRtt => {
            let rank = |i: usize| (core.paths[i].rtt.srtt().unwrap_or(Duration::MAX), i != at, i);
            active().min_by_key(|&i| rank(i))
        }
    };
    chosen.unwrap_or(same_if_alive)
}
