//! The next piece of the pass at hand.

use super::ranges::Ranges;
use super::{ConSn, Stage};
use crate::buffer::RangeSet;
use crate::scheduler::{Data, PathState};
use crate::time::{Duration, Time};

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
    Sent(&'a Ranges),
    /// What has arrived, and what the path that asks has had.
    Had(&'a RangeSet, &'a Ranges),
}

impl Taken<'_> {
    /// A range that holds `at`.
    fn range_at(&self, at: u64) -> Option<(u64, u64)> {
        match self {
            Self::Sent(sent) => sent.range_at(at),
            Self::Had(arrived, own) => arrived.range_at(at).or_else(|| own.range_at(at)),
        }
    }

    /// Where the first range begins that ends above `at`.
    fn next_from(&self, at: u64) -> Option<u64> {
        let next = |range: Option<(u64, u64)>| range.map(|(start, _)| start);
        match self {
            Self::Sent(sent) => next(sent.next_from(at)),
            Self::Had(arrived, own) => {
                [next(arrived.next_from(at)), next(own.next_from(at))].into_iter().flatten().min()
            }
        }
    }

    /// Where what begins below `at` ends.
    fn end_before(&self, at: u64) -> Option<u64> {
        let before = |range: Option<(u64, u64)>| range.map(|(_, end)| end);
        match self {
            Self::Sent(sent) => before(sent.last_before(at)),
            Self::Had(arrived, own) => before(arrived.last_before(at)).max(before(own.last_before(at))),
        }
    }
}

impl ConSn {
    /// `path` brings the byte at `at` sooner than it is due from the path that has it, or it is overdue.
    pub(super) fn is_worth_repeating(&self, path: &PathState, at: u64, now: Time) -> bool {
        let round_trip = path.srtt.unwrap_or(Duration::ZERO);
        self.dues.of(at).is_none_or(|due| now + round_trip < due || due + round_trip < now)
    }

    /// `path` brings what ends at `end` before those who ascend would have to wait for it: they can go on as long as there is
    /// something of the window that nobody has sent, and the window is as wide from there.
    fn is_in_time(&self, path: &PathState, end: u64, data: &Data<'_>) -> bool {
        let left = (end + (data.end - data.una)).saturating_sub(data.una + self.covered());
        path.srtt.is_none_or(|srtt| srtt.as_secs_f64() * self.pace <= left as f64)
    }

    /// The next piece upwards of the pass at hand. It may overlap the end of the pass, but nothing that has been sent.
    pub(super) fn ascend(&mut self, path: &PathState, data: &Data<'_>) -> Found {
        let own = &self.shares[path.id.index()].had;
        let repeats = self.up.stage == Stage::Repeat;
        let taken = if repeats { Taken::Had(data.arrived, own) } else { Taken::Sent(&self.sent) };
        let mut start = self.up.next.max(data.una);
        while start < self.up.to
            && let Some((_, end)) = taken.range_at(start)
        {
            start = end;
        }
        if start >= self.up.to {
            return Found::Through;
        }
        if repeats && !self.is_worth_repeating(path, start, data.now) {
            return Found::NotNow;
        }
        let next = taken.next_from(start);
        let whole = start + u64::from(path.mss);
        let end = whole.min(data.end).min(next.unwrap_or(u64::MAX));
        if end == data.end && end < whole && data.more {
            return Found::NotNow; // the window will open further
        }
        let Some(len) = room_for(path, end - start) else { return Found::NoRoom };
        let end = start + len;
        if !repeats {
            self.up.next = end;
        }
        Found::Piece(start, end)
    }

    /// The next piece downwards.
    pub(super) fn descend(&mut self, path: &PathState, data: &Data<'_>) -> Found {
        let own = &self.shares[path.id.index()].had;
        let repeats = self.down.stage == Stage::Repeat;
        let taken = if repeats { Taken::Had(data.arrived, own) } else { Taken::Sent(&self.sent) };
        let from = self.down.from.max(data.una);
        let mut end = self.down.next;
        while end > from
            && let Some((start, _)) = taken.range_at(end - 1)
        {
            end = start;
        }
        if end <= from {
            return Found::Through;
        }
        let worth = if self.sent.contains(end - 1) {
            self.is_worth_repeating(path, end - 1, data.now)
        } else {
            self.is_in_time(path, end, data)
        };
        if !worth {
            return Found::NotNow;
        }
        let before = taken.end_before(end);
        let start = end.saturating_sub(u64::from(path.mss)).max(data.una).max(before.unwrap_or(0));
        let Some(len) = room_for(path, end - start) else { return Found::NoRoom };
        let start = end - len;
        if !repeats {
            self.down.next = start;
        }
        Found::Piece(start, end)
    }
}

/// How much of `len` bytes a path takes at once: all, or nothing as long as acknowledgements will make room for all.
fn room_for(path: &PathState, len: u64) -> Option<u64> {
    (len <= path.queueable || path.outstanding == 0).then(|| len.min(path.queueable))
}
