//! Opportunistic retransmission and penalisation (Raiciu2012 §4.2): what a slower path holds up, a faster one sends again,
//! and the slower path gets less.
//!
//! A buffer that is full of what follows a segment on the way over a slow path stops the fast one. It is the peer's
//! receive buffer, which closes the window, or the send buffer here, whose bytes stay until they are acknowledged. While
//! nothing new may leave, a path with room sends again what slower paths have under way, in the order of the data and each
//! range once. With the first segment alone the next one would block as soon as that is there, and so on, one round trip
//! for each; with all of them at once they would be lost together. So one segment leaves for each thing that happens:
//! acknowledgements of what is in flight clock them, and they are fewer than what they follow. New data fills the rest of the
//! window; at the end, where there is none, they take all of it.

use super::connection::{Connection, ConnectionPhase};
use super::mapping::Mapping;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Endpoint, Why};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::PenaltyInSlowStart;
use anabranch_multipath::policy::Penalisation;
use anabranch_wire::Packet;

/// What a slower path has under way.
struct HeldUp {
    /// The path that has it.
    holder: usize,
    /// Where it is in the data.
    start: u64,
    end: u64,
}

impl Connection {
    /// Everything written has left, and there is no room for more: what is not acknowledged fills the send buffer, or
    /// there will be no more.
    pub(super) fn is_held_up(&self) -> bool {
        self.config.opportunistic_retransmission
            && self.start_up.is_over()
            && self.phase == ConnectionPhase::Multipath
            && self.send.una < self.send.highest()
            && self.send_space() == 0
    }

    /// Nothing new may leave. The next segment that slower paths hold up leaves again on a path with room.
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
        // The left edge decides who is to blame: if the path that has it is the fastest, the buffer is merely small.
        let first = self.next_held_up(una, fastest).filter(|held| held.start == una)?;
        let from = self.opportunistic_to.max(una);
        let held = if from == una { first } else { self.next_held_up(from, fastest)? };
        let slow = self.states[held.holder].srtt;
        self.states.iter_mut().filter(|s| s.srtt >= slow).for_each(|s| s.queueable = 0);
        let path = self.choose(now, held.end - held.start, None)?;
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

    /// The lowest data from `from` on that paths slower than `fastest` have under way.
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

    /// The path that holds up the data gets half of its window, at most once a round trip. Unless any is to blame, one that
    /// carries more than the path in whose way it is is not: what is on its way there is much because it is fast.
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
        if subflow.penalised_at.is_none_or(|at| now >= at + interval) {
            subflow.penalised_at = Some(now);
            self.tally.penalisations += 1;
            self.congestion.penalise(now, PathId(holder as u8), PenaltyInSlowStart::Unbounded);
        }
    }
}
