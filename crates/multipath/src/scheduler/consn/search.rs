//! Passes over the window, and the next piece of a pass.

use super::due::Dues;
use crate::buffer::RangeSet;
use crate::scheduler::{Data, PathState};
use anabranch_base::time::Duration;

/// Stage of the ascending or of the descending paths: the data that they send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The part of the block that is for these paths.
    Own,
    /// Data that the window has admitted beyond the block since it was built.
    Reuse,
    /// Unsent data of the part for the other paths.
    Rest,
    /// Unacknowledged data, except that which the sending path itself has in flight.
    Repeat,
}

/// Progress of the ascending or of the descending paths in their stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) stage: Stage,
    from: u64,
    to: u64,
    /// All data below this offset (for descending paths: above it) has been handled. In the stage `Repeat`, no data
    /// counts as handled, because each path has sent different parts of it.
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
    /// No piece at this time: either the window will soon admit the rest of a packet, or the data would
    /// arrive too late.
    NotNow,
    /// A piece exists, but the path has no room for a whole packet yet.
    NoRoom,
    /// No piece is left: the pass is complete.
    Through,
}

/// Data that a pass skips, because it need not be sent.
enum Taken<'a> {
    /// Data that has been sent on any path.
    Sent(&'a RangeSet),
    /// Data that has arrived, and data that the searching path has sent.
    Had(&'a RangeSet, &'a RangeSet),
}

impl Taken<'_> {
    /// Returns the first range that ends above `at`; it may contain `at`. Of overlapping ranges, returns the one that
    /// begins first.
    fn next_from(&self, at: u64) -> Option<(u64, u64)> {
        match self {
            Self::Sent(sent) => sent.next_from(at),
            Self::Had(arrived, own) => match (arrived.next_from(at), own.next_from(at)) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
        }
    }

    /// Returns the last range that begins below `at`; it may contain `at`. Of overlapping ranges, returns the one that
    /// ends last.
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
    /// Ranges of the window that were sent on any path.
    pub(super) sent: &'a RangeSet,
    pub(super) had: &'a RangeSet,
    pub(super) dues: &'a Dues,
    /// Rate at which the ascending paths send together, bytes per second.
    pub(super) pace: f64,
}

impl Search<'_> {
    /// Returns the data that a pass skips: in the stage `Repeat`, data that has arrived or that this path has sent; in
    /// other stages, all sent data.
    fn skipped_ranges(&self, repeated: bool) -> Taken<'_> {
        if repeated { Taken::Had(self.data.arrived, self.had) } else { Taken::Sent(self.sent) }
    }

    /// True if this path would deliver the byte at `at` before it is expected from the path that has sent it, or if the
    /// byte is overdue.
    pub(super) fn is_worth_reinjecting(&self, at: u64) -> bool {
        let now = self.data.now;
        let round_trip = self.path.srtt.unwrap_or(Duration::ZERO);
        self.dues.of(at).is_none_or(|due| now + round_trip < due || due + round_trip < now)
    }

    /// True if this path would deliver the data up to `end` before the ascending paths have to wait for it. They can go
    /// on while the window contains unsent data; when `end` is acknowledged, the window is as wide as now.
    fn is_in_time(&self, end: u64) -> bool {
        let data = self.data;
        // The first sent range may begin below the window; that part does not count.
        let below = self.sent.first().map_or(0, |(start, _)| data.una.saturating_sub(start));
        let sent = self.sent.covered() - below;
        let left = (end + (data.end - data.una)).saturating_sub(data.una + sent);
        self.path.srtt.is_none_or(|srtt| srtt.as_secs_f64() * self.pace <= left as f64)
    }

    /// Finds the next piece of an ascending pass. It may extend beyond the end of the pass, but contains no data that
    /// was sent.
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

    /// Finds the next piece of a descending pass, from its upper end down.
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

/// Returns how many of `len` bytes a path takes: all that it has room for, or `None` if it has no room for all of them
/// yet but acknowledgements will make room.
fn room_for(path: &PathState, len: u64) -> Option<u64> {
    (len <= path.queueable || path.outstanding == 0).then(|| len.min(path.queueable))
}
