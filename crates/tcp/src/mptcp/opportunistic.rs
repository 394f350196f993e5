//! Opportunistic retransmission and penalisation (Raiciu2012 §4.2): a faster path retransmits data that a slower path
//! delays, and the slower path's window is reduced.
//!
//! A segment in flight on a slow path stops the fast path when the data behind it fills a buffer: the peer's receive
//! buffer, which closes the window, or the local send buffer, which keeps bytes until they are acknowledged. While no
//! new data may be sent, a path with free window retransmits the data in flight on slower paths, in the order of the
//! data and each range once.
//!
//! With a copy of the first segment alone, the next segment would block as soon as the first has arrived, one round
//! trip for each. A burst of all segments could lose all of them. So one segment is sent for each event:
//! acknowledgements of the data in flight clock the copies, and there are fewer acknowledgements than segments. New
//! data fills the rest of the window; at the end of the stream, where there is none, copies take all of it.
//!
//! Before the end of the stream, no copy is sent on a busy path if the first segment in flight is due before a copy
//! could be acknowledged. The window then opens soon without a copy, and each copy would take the place of new data.
//! A path whose queue has drained has no new data to send, so a copy costs nothing there.

use super::connection::{Connection, ConnectionPhase};
use super::mapping::Mapping;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{DecisionReason, Endpoint};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::PenaltyInSlowStart;
use anabranch_settings::policy::Penalisation;
use anabranch_wire::Packet;

/// Segments that a path with free window may send at once. Bursts of fewer segments fit most queues, and holding them
/// back costs more than their losses. With 10 to 25, a path of 10 Mbit/s and 200 ms next to one of 1 Mbit/s reaches
/// 0.6 to 0.75 of its rate alone, with buffers of 400 kB. From 50 on, the gain is lost on slow return links.
const BURST_SEGMENTS: u64 = 35;

/// A range of data in flight on a slower path.
#[derive(Clone, Copy)]
struct HeldUp {
    /// The path on which the data is in flight.
    holder: usize,
    /// Offset of the copied range in the data.
    start: u64,
    end: u64,
}

impl Connection {
    /// Returns true if the application cannot write more: unacknowledged data fills the send buffer, or the stream
    /// has ended.
    pub(super) fn is_write_blocked(&self) -> bool {
        self.send_space() == 0 && self.send.una < self.send.highest()
    }

    /// Returns true if data in flight may be copied to another path while all written data has been sent.
    pub(super) fn may_retransmit_opportunistically(&self) -> bool {
        self.config.opportunistic_retransmission
            && self.start_up.is_over()
            && self.phase == ConnectionPhase::Multipath
    }

    /// Sends a copy of the next segment that slower paths delay, on a path with free window; called when no new data
    /// may be sent.
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
        // The path that carries the left edge is penalised. If that is the fastest path, the buffer is merely small.
        let first = self.next_held_up(una, fastest).filter(|held| held.start == una)?;
        let from = self.opportunistic_to.max(una);
        let held = if from == una { first } else { self.next_held_up(from, fastest)? };
        let slow = self.states[held.holder].srtt;
        self.states.iter_mut().filter(|s| s.srtt >= slow).for_each(|s| s.queueable = 0);
        let path = self.choose(now, held.end - held.start, None)?;
        if !ending && self.is_wasted_copy(now, &first, path) {
            return None;
        }
        self.opportunistic_at = Some(now);
        if held.start == una && !ending {
            self.penalise(now, (held.holder, path.index()));
        }
        let len = (held.end - held.start).min(u64::from(self.segment_limit(now, path.index())));
        self.opportunistic_to = held.start + len;
        self.tally.opportunistic += 1;
        self.subflows[path.index()].block.counters_mut().reinjections += 1;
        Some(self.send_on(now, (path, DecisionReason::Opportunistic), (held.start, len as u32)))
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

    /// Returns true if a copy on `path` would take the place of new data and gain nothing: the path's link is busy,
    /// and the original of the left edge is due within the path's shortest round trip. A path that is believed to
    /// have failed delivers no original.
    fn is_wasted_copy(&self, now: Time, first: &HeldUp, path: PathId) -> bool {
        let (holder, state) = (&self.subflows[first.holder], &self.states[path.index()]);
        let srtts = (self.states[first.holder].srtt, state.srtt);
        let ((Some(slow), Some(fast)), Some(sent_at)) = (srtts, holder.sent_at(first.start)) else {
            return false;
        };
        let shortest = self.subflows[path.index()].block.rtt().min_rtt();
        holder.block.attempts() == 0
            && is_busy((state.outstanding, state.cwnd), (shortest, fast))
            && is_due_first(now, sent_at, (slow, shortest))
    }

    /// Halves the window of the path that holds up the data, at most once a round trip. With `Penalisation::Weaker` a
    /// holder that is faster than the other path is exempt, because it has much in flight only for its speed.
    fn penalise(&mut self, now: Time, (holder, other): (usize, usize)) {
        let rate = |index: usize| {
            let state = &self.states[index];
            state.cwnd as f64 / state.srtt.unwrap_or(Duration::MAX).as_secs_f64()
        };
        let blamed = match self.config.penalisation {
            _ if self.scheduler.fits_buffer() => false,
            Penalisation::Never => false,
            Penalisation::Weaker => rate(holder) <= rate(other),
            Penalisation::Any => true,
        };
        if !blamed {
            return;
        }
        let subflow = &mut self.subflows[holder];
        let interval = subflow.block.rtt().srtt().unwrap_or(Duration::ZERO);
        if subflow.penalised_at.is_none_or(|at| now >= at + interval) {
            subflow.penalised_at = Some(now);
            self.tally.penalisations += 1;
            subflow.block.window_changed();
            subflow.block.counters_mut().penalisations += 1;
            self.congestion.penalise(now, PathId(holder as u8), PenaltyInSlowStart::Unbounded);
        }
    }
}

/// Returns true if the data in flight keeps the link busy until the next acknowledgement. That needs at least the
/// congestion window times the ratio of the shortest to the smoothed round-trip time, which is the window without the
/// queue.
fn is_busy((outstanding, cwnd): (u64, u64), (shortest, smoothed): (Duration, Duration)) -> bool {
    outstanding as f64 * smoothed.as_secs_f64() > cwnd as f64 * shortest.as_secs_f64()
}

/// Returns true if a segment sent at `sent_at` on the slow path is due before a copy sent now on the fast path can be
/// acknowledged. The arrival of an overdue segment cannot be predicted, since it is lost or delayed further.
fn is_due_first(now: Time, sent_at: Time, (slow, fast): (Duration, Duration)) -> bool {
    let due = sent_at + slow;
    now <= due && due <= now + fast
}

impl Connection {
    /// Starts a paced restart on paths with free window while a full buffer permits no new data. The snapshot of the
    /// paths must be current.
    pub(super) fn prepare_restarts(&mut self) {
        for (state, subflow) in self.states.iter().zip(&mut self.subflows) {
            if state.usable && state.queueable > BURST_SEGMENTS * u64::from(state.mss) {
                subflow.restart.get_or_insert_default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_busy_while_its_queue_holds_data() {
        let rtts = (Duration::from_millis(20), Duration::from_millis(40));
        assert!(is_busy((31_000, 60_000), rtts) && !is_busy((30_000, 60_000), rtts));
    }

    #[test]
    fn copy_waits_for_an_original_that_is_due() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let rtts = (Duration::from_millis(2_000), Duration::from_millis(100));
        // Sent at 500 ms and due at 2,500 ms; a copy is acknowledged after 100 ms.
        let due_first = |now| is_due_first(at(now), at(500), rtts);
        assert_eq!([600, 2_399, 2_400, 2_500, 2_501].map(due_first), [false, false, true, true, false]);
    }
}
