//! Passes through the window, and the next piece of one.

use super::due::Dues;
use crate::buffer::RangeSet;
use crate::scheduler::{Data, PathState};
use anabranch_base::time::Duration;

/// What those who go one way are at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Their own part of the block.
    Own,
    /// What has opened beyond the block since it was built.
    Reuse,
    /// The others' part, as far as nobody has sent it.
    Rest,
    /// What is not acknowledged, and not under way on the path that asks.
    Repeat,
}

/// How far those have come who go one way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) stage: Stage,
    from: u64,
    to: u64,
    /// All below (for those who descend: above) is through. What is repeated is never through: each path has had something else.
    next: u64,
}

impl Pass {
    pub(super) const fn ascending(stage: Stage, from: u64, to: u64) -> Self {
        Self { stage, from, to, next: from }
    }

    pub(super) const fn descending(stage: Stage, from: u64, to: u64) -> Self {
        Self { stage, from, to, next: to }
    }
}

/// What the pass at hand has for a path.
pub(super) enum Found {
    /// From where to where.
    Piece(u64, u64),
    /// Nothing for now: the window will open for the rest of a packet, or it would come too late.
    NotNow,
    /// Something, as soon as the path has room for all of a packet.
    NoRoom,
    /// Nothing any more.
    Through,
}

/// What a pass steps over.
enum Taken<'a> {
    /// What any path has had.
    Sent(&'a RangeSet),
    /// What has arrived, and what the path that asks has had.
    Had(&'a RangeSet, &'a RangeSet),
}

impl Taken<'_> {
    /// The first range that ends above `at` (it may hold `at`); of several that overlap the one that begins first.
    fn next_from(&self, at: u64) -> Option<(u64, u64)> {
        match self {
            Self::Sent(sent) => sent.next_from(at),
            Self::Had(arrived, own) => match (arrived.next_from(at), own.next_from(at)) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
        }
    }

    /// The last range that begins below `at` (it may hold `at`); of several that overlap the one that ends last.
    fn last_before(&self, at: u64) -> Option<(u64, u64)> {
        match self {
            Self::Sent(sent) => sent.last_before(at),
            Self::Had(arrived, own) => match (arrived.last_before(at), own.last_before(at)) {
                (Some(one), Some(other)) => Some(if one.1 > other.1 { one } else { other }),
                (one, other) => one.or(other),
            },
        }
    }
}

/// What decides about the next piece for a path.
pub(super) struct Search<'a> {
    pub(super) path: &'a PathState,
    pub(super) data: &'a Data<'a>,
    /// What any path has had of the window, and what this one has had.
    pub(super) sent: &'a RangeSet,
    pub(super) had: &'a RangeSet,
    pub(super) dues: &'a Dues,
    /// How many bytes those who ascend send in a second.
    pub(super) pace: f64,
}

impl Search<'_> {
    /// What is stepped over where all is `repeated`, or only new.
    fn taken(&self, repeated: bool) -> Taken<'_> {
        if repeated { Taken::Had(self.data.arrived, self.had) } else { Taken::Sent(self.sent) }
    }

    /// The path brings the byte at `at` sooner than it is due from the path that has it, or it is overdue.
    pub(super) fn is_worth_repeating(&self, at: u64) -> bool {
        let now = self.data.now;
        let round_trip = self.path.srtt.unwrap_or(Duration::ZERO);
        self.dues.of(at).is_none_or(|due| now + round_trip < due || due + round_trip < now)
    }

    /// The path brings what ends at `end` before those who ascend would have to wait for it: they can go on as long as there is
    /// something of the window that nobody has sent, and the window is as wide from there.
    fn is_in_time(&self, end: u64) -> bool {
        let data = self.data;
        // Of what has been sent, the first range may have begun below the window.
        let below = self.sent.first().map_or(0, |(start, _)| data.una.saturating_sub(start));
        let sent = self.sent.covered() - below;
        let left = (end + (data.end - data.una)).saturating_sub(data.una + sent);
        self.path.srtt.is_none_or(|srtt| srtt.as_secs_f64() * self.pace <= left as f64)
    }

    /// The next piece upwards of the pass at hand. It may overlap the end of the pass, but nothing that has been sent.
    pub(super) fn ascend(&self, pass: &mut Pass) -> Found {
        let Self { path, data, .. } = *self;
        let repeats = pass.stage == Stage::Repeat;
        let taken = self.taken(repeats);
        let mut start = pass.next.max(data.una);
        let next = loop {
            if start >= pass.to {
                return Found::Through;
            }
            match taken.next_from(start) {
                Some((from, end)) if from <= start => start = end,
                next => break next,
            }
        };
        let whole = start + u64::from(path.mss);
        let end = whole.min(data.end).min(next.map_or(u64::MAX, |(from, _)| from));
        if end == data.end && end < whole && data.more {
            return Found::NotNow; // the window will open further
        }
        if repeats && !self.is_worth_repeating(start) {
            return Found::NotNow;
        }
        let Some(len) = room_for(path, end - start) else { return Found::NoRoom };
        let end = start + len;
        if !repeats {
            pass.next = end;
        }
        Found::Piece(start, end)
    }

    /// The next piece downwards.
    pub(super) fn descend(&self, pass: &mut Pass) -> Found {
        let Self { path, data, .. } = *self;
        let repeats = pass.stage == Stage::Repeat;
        let taken = self.taken(repeats);
        let from = pass.from.max(data.una);
        let mut end = pass.next;
        let before = loop {
            if end <= from {
                return Found::Through;
            }
            match taken.last_before(end) {
                Some((start, to)) if to >= end => end = start,
                before => break before,
            }
        };
        let worth =
            if self.sent.contains(end - 1) { self.is_worth_repeating(end - 1) } else { self.is_in_time(end) };
        if !worth {
            return Found::NotNow;
        }
        let start = end.saturating_sub(u64::from(path.mss)).max(data.una).max(before.map_or(0, |(_, to)| to));
        let Some(len) = room_for(path, end - start) else { return Found::NoRoom };
        let start = end - len;
        if !repeats {
            pass.next = start;
        }
        Found::Piece(start, end)
    }
}

/// How much of `len` bytes a path takes at once: all, or nothing as long as acknowledgements will make room for all.
fn room_for(path: &PathState, len: u64) -> Option<u64> {
    (len <= path.queueable || path.outstanding == 0).then(|| len.min(path.queueable))
}
