//! Passes over the window, and the next piece of a pass.

use super::due::Dues;
use crate::buffer::RangeSet;
use crate::scheduler::{Data, PathState};
use anabranch_base::time::Duration;

/// Stage of the ascending or descending paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The part of the block that belongs to these paths.
    Own,
    /// Data that the window has admitted beyond the block since it was built.
    Reuse,
    /// Unsent data of the other paths' part.
    Rest,
    /// Unacknowledged data that the path in question does not have in flight.
    Repeat,
}

/// Progress of the ascending or descending paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) stage: Stage,
    from: u64,
    to: u64,
    /// All data below (descending: above) this offset has been handled. In the stage `Repeat` no data is marked as
    /// handled, because each path has sent other parts of it.
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

/// Result of a search for a path's next piece.
pub(super) enum Found {
    /// Start and end of the next piece.
    Piece(u64, u64),
    /// No piece for now: either the window will soon admit the rest of a packet, or the data would arrive too late.
    NotNow,
    /// A piece exists, but the path has no room for a whole packet yet.
    NoRoom,
    /// No piece is left: the pass is complete.
    Through,
}

/// Data that a pass skips.
enum Taken<'a> {
    /// Data that any path has sent.
    Sent(&'a RangeSet),
    /// Data that has arrived, and data that the path in question has sent.
    Had(&'a RangeSet, &'a RangeSet),
}

impl Taken<'_> {
    /// The first range that ends above `at` (it may contain `at`); of overlapping ranges the one that begins
    /// first.
    fn next_from(&self, at: u64) -> Option<(u64, u64)> {
        match self {
            Self::Sent(sent) => sent.next_from(at),
            Self::Had(arrived, own) => match (arrived.next_from(at), own.next_from(at)) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
        }
    }

    /// The last range that begins below `at` (it may contain `at`); of overlapping ranges the one that ends
    /// last.
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

/// Input of the search for a path's next piece.
pub(super) struct Search<'a> {
    pub(super) path: &'a PathState,
    pub(super) data: &'a Data<'a>,
    /// Ranges of the window sent on any path, and on this one.
    pub(super) sent: &'a RangeSet,
    pub(super) had: &'a RangeSet,
    pub(super) dues: &'a Dues,
    /// Bytes per second that the ascending paths send.
    pub(super) pace: f64,
}

impl Search<'_> {
    /// Data that is skipped: for reinjections, arrived data and data that this path has sent; otherwise all sent data.
    fn skipped_ranges(&self, repeated: bool) -> Taken<'_> {
        if repeated { Taken::Had(self.data.arrived, self.had) } else { Taken::Sent(self.sent) }
    }

    /// Whether this path would deliver the byte at `at` before it is due from its present path, or the byte is overdue.
    pub(super) fn is_worth_reinjecting(&self, at: u64) -> bool {
        let now = self.data.now;
        let round_trip = self.path.srtt.unwrap_or(Duration::ZERO);
        self.dues.of(at).is_none_or(|due| now + round_trip < due || due + round_trip < now)
    }

    /// Whether the path would deliver the data up to `end` before the ascending paths have to wait for it. They can
    /// continue while the window contains unsent data; after `end` is acknowledged, the window is as wide as now.
    fn is_in_time(&self, end: u64) -> bool {
        let data = self.data;
        // The first sent range may begin below the window.
        let below = self.sent.first().map_or(0, |(start, _)| data.una.saturating_sub(start));
        let sent = self.sent.covered() - below;
        let left = (end + (data.end - data.una)).saturating_sub(data.una + sent);
        self.path.srtt.is_none_or(|srtt| srtt.as_secs_f64() * self.pace <= left as f64)
    }

    /// The next piece of an ascending pass. It may extend beyond the pass, but contains no sent data.
    pub(super) fn ascend(&self, pass: &mut Pass) -> Found {
        let Self { path, data, .. } = *self;
        let repeats = pass.stage == Stage::Repeat;
        let taken = self.skipped_ranges(repeats);
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
            return Found::NotNow; // the window will admit more
        }
        if repeats && !self.is_worth_reinjecting(start) {
            return Found::NotNow;
        }
        let Some(len) = room_for(path, end - start) else { return Found::NoRoom };
        let end = start + len;
        if !repeats {
            pass.next = end;
        }
        Found::Piece(start, end)
    }

    /// The next piece of a descending pass, from its upper end.
    pub(super) fn descend(&self, pass: &mut Pass) -> Found {
        let Self { path, data, .. } = *self;
        let repeats = pass.stage == Stage::Repeat;
        let taken = self.skipped_ranges(repeats);
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
        let worth = if self.sent.contains(end - 1) {
            self.is_worth_reinjecting(end - 1)
        } else {
            self.is_in_time(end)
        };
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

/// The number of bytes of `len` that a path takes: all, or none if acknowledgements will make room for all.
fn room_for(path: &PathState, len: u64) -> Option<u64> {
    (len <= path.queueable || path.outstanding == 0).then(|| len.min(path.queueable))
}
