//! Opportunistic retransmission and penalisation (Raiciu2012 §4.2): a faster path retransmits data that a slower path
//! delays, and the slower path's window is reduced.
//!
//! A segment in flight on a slow path stops the fast path when the data behind it fills a buffer. This is the peer's
//! receive buffer, which closes the window, or the local send buffer, which keeps bytes until they are acknowledged.
//! While no new data may be sent, a path with room retransmits the data in flight on slower paths, in the order of
//! the data and each range once.
//!
//! If it retransmitted the first segment alone, the next one would block as soon as the first has arrived, one round
//! trip for each. If it retransmitted all segments at once, they would be lost together. So one segment is sent for
//! each event: acknowledgements of the data in flight clock the copies, and there are fewer acknowledgements than
//! segments. New data fills the rest of the window; at the end of the stream, where there is none, copies take all of
//! it.
//!
//! A copy must be useful ([`Connection::gains_by_copying`]): it arrives before the original, and does not displace
//! new data. Between the sending of a segment on the slow path and its acknowledgement the connection can carry one
//! window. If the fast path alone carries no more in that time, the window opens soon enough without copies, and each
//! copy would displace new data.

use super::connection::{Connection, ConnectionPhase};
use super::mapping::Mapping;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Endpoint, Why};
use anabranch_multipath::PathId;
use anabranch_multipath::buffer::holds_back;
use anabranch_multipath::congestion::PenaltyInSlowStart;
use anabranch_multipath::policy::Penalisation;
use anabranch_wire::Packet;

/// Round trips after which a path that delayed the others begins a new phase.
const EXCUSED_AFTER: u64 = 3;

/// Data in flight on a slower path.
#[derive(Clone, Copy)]
struct HeldUp {
    /// The path on which it is in flight.
    holder: usize,
    /// Its offset in the data.
    start: u64,
    end: u64,
}

impl Connection {
    /// All written data has been sent, and no more can be written: unacknowledged data fills the send buffer, or the
    /// stream has ended.
    pub(super) fn is_held_up(&self) -> bool {
        self.config.opportunistic_retransmission
            && self.start_up.is_over()
            && self.phase == ConnectionPhase::Multipath
            && self.send.una < self.send.highest()
            && self.send_space() == 0
    }

    /// No new data may be sent: a path with room retransmits the next segment that slower paths delay.
    pub(super) fn retransmit_opportunistically(&mut self, now: Time) -> Option<Packet> {
        let una = self.send.una;
        let ending = self.closing && self.send.all_assigned();
        if !self.config.opportunistic_retransmission
            || !self.start_up.is_over()
            || una >= self.send.highest()
            || (self.opportunistic_at == Some(now) && !ending)
        {
            return None;
        }
        let room = self.states.iter().filter(|s| s.queueable > 0);
        let fastest = room.min_by_key(|s| s.srtt)?.srtt;
        // The left edge determines the path to penalise: if that is the fastest, the buffer is merely small.
        let first = self.next_held_up(una, fastest).filter(|held| held.start == una)?;
        let from = self.opportunistic_to.max(una);
        let held = if from == una { first } else { self.next_held_up(from, fastest)? };
        let slow = self.states[held.holder].srtt;
        self.states.iter_mut().filter(|s| s.srtt >= slow).for_each(|s| s.queueable = 0);
        let path = self.choose(now, held.end - held.start, None)?;
        if !ending && !self.gains_by_copying(now, &first, path) {
            return None;
        }
        self.opportunistic_at = Some(now);
        if held.start == una && !ending {
            self.penalise(now, (held.holder, path.index()));
        }
        let len = (held.end - held.start).min(u64::from(self.subflows[path.index()].block.mss()));
        self.opportunistic_to = held.start + len;
        self.tally.opportunistic += 1;
        self.subflows[path.index()].block.counters_mut().reinjections += 1;
        Some(self.send_on(now, (path, Why::Opportunistic), (held.start, len as u32)))
    }

    /// The lowest data from `from` on that is in flight on paths slower than `fastest`.
    fn next_held_up(&self, from: u64, fastest: Option<Duration>) -> Option<HeldUp> {
        let slower = self.subflows.iter().enumerate().filter(|(index, _)| self.states[*index].srtt > fastest);
        let held = slower.flat_map(|(holder, subflow)| {
            let of = move |mapping: &Mapping| {
                let end = mapping.data + u64::from(mapping.len);
                (end > from).then(|| HeldUp { holder, start: mapping.data.max(from), end })
            };
            subflow.sent.iter().filter_map(of)
        });
        held.min_by_key(|held| held.start)
    }

    /// A copy of the left edge on `path` is acknowledged before the original, and the window limits `path`.
    fn gains_by_copying(&self, now: Time, first: &HeldUp, path: PathId) -> bool {
        let (slow, fast) = (&self.states[first.holder], &self.states[path.index()]);
        let (Some(slow_rtt), Some(fast_rtt)) = (slow.srtt, fast.srtt) else { return true };
        let sent_at = self.subflows[first.holder].sent_at(first.start);
        if is_due_first(now, sent_at, (slow_rtt, fast_rtt)) {
            return false;
        }
        holds_back(self.send_window(), slow_rtt, (fast.cwnd, fast_rtt))
    }

    /// Halves the window of the path that delays the data, at most once a round trip. The first round trip of a phase
    /// in which it delays the data is excused: a packet may have been lost, or the windows may just have reached the
    /// buffer.
    ///
    /// Unless [`Penalisation::Any`] is configured, a path that carries more than the path it delays is exempt: it
    /// has much data in flight because it is fast.
    fn penalise(&mut self, now: Time, (holder, other): (usize, usize)) {
        let rate = |index: usize| {
            let state = &self.states[index];
            state.cwnd as f64 / state.srtt.unwrap_or(Duration::MAX).as_secs_f64()
        };
        let blamed = match self.config.penalisation {
            Penalisation::Never => false,
            Penalisation::Weaker => rate(holder) <= rate(other),
            Penalisation::Any => true,
        };
        if !blamed {
            return;
        }
        let subflow = &mut self.subflows[holder];
        let interval = subflow.block.rtt().srtt().unwrap_or(Duration::ZERO);
        let begun =
            subflow.holds_up.filter(|&(_, last)| now <= last + interval.saturating_mul(EXCUSED_AFTER));
        let since = begun.map_or(now, |(since, _)| since);
        subflow.holds_up = Some((since, now));
        if now < since + interval {
            return;
        }
        if subflow.penalised_at.is_none_or(|at| now >= at + interval) {
            subflow.penalised_at = Some(now);
            self.tally.penalisations += 1;
            self.congestion.penalise(now, PathId(holder as u8), PenaltyInSlowStart::Unbounded);
        }
    }
}

/// Whether the acknowledgement of a segment is due before that of a copy sent now. An overdue segment has no such
/// date: its path has become slower, or has lost it.
fn is_due_first(now: Time, sent_at: Option<Time>, (slow, fast): (Duration, Duration)) -> bool {
    sent_at.map(|at| at + slow).is_some_and(|due| now <= due && due <= now + fast)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_waits_for_an_original_that_is_due() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let rtts = (Duration::from_millis(2_000), Duration::from_millis(100));
        // Sent at 500 ms, due at 2,500 ms; a copy takes 100 ms.
        let due_first = |now| is_due_first(at(now), Some(at(500)), rtts);
        assert_eq!([600, 2_399, 2_400, 2_500, 2_501].map(due_first), [false, false, true, true, false]);
        assert!(!is_due_first(at(600), None, rtts));
    }
}
