//! The time at which the acknowledgement of each byte in flight is expected.

use crate::PathId;
use anabranch_base::time::Time;
use std::collections::VecDeque;

/// A range of data that was sent in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sending {
    start: u64,
    end: u64,
    due: Time,
    /// Number of the piece, ascending over all paths.
    number: u64,
}

/// The newest transmission of each byte, for each path.
#[derive(Debug, Default)]
pub(super) struct Dues {
    paths: Vec<PathDues>,
    sent: u64,
}

impl Dues {
    /// Records that `[start, end)` was sent on a path, and that its acknowledgement is expected at `due`. Replaces
    /// earlier records of these bytes on this path.
    pub fn set(&mut self, path: PathId, (start, end): (u64, u64), due: Time) {
        let index = path.index();
        if self.paths.len() <= index {
            self.paths.resize_with(index + 1, PathDues::default);
        }
        self.paths[index].set(Sending { start, end, due, number: self.sent });
        self.sent += 1;
    }

    /// Returns the time at which the acknowledgement of the byte at `at` is expected, if that byte has been sent.
    pub fn of(&self, at: u64) -> Option<Time> {
        let sendings = self.paths.iter().filter_map(|path| path.of(at));
        sendings.max_by_key(|sending| sending.number).map(|sending| sending.due)
    }

    /// Removes the records of data below `una`, which has been acknowledged.
    pub fn forget_below(&mut self, una: u64) {
        for path in &mut self.paths {
            path.forget_below(una);
        }
    }
}

/// Records of one path, disjoint and in stream order. Like a gap buffer, they are stored on two sides of a
/// gap at the position of the last insertion. Ascending paths add to the lower side, and descending paths to
/// the upper side or to the end, without a search. Since each path has a separate gap, it moves only when the
/// path starts a new pass.
#[derive(Debug, Default)]
struct PathDues {
    low: VecDeque<Sending>,
    high: VecDeque<Sending>,
}

impl PathDues {
    /// Adds the record of a transmission.
    fn set(&mut self, sending: Sending) {
        let Sending { start, end, .. } = sending;
        match (self.low.back(), self.high.front()) {
            (Some(below), _) if below.end > start => {}
            (_, Some(above)) if above.start == end => return self.high.push_front(sending),
            (_, Some(above)) if above.start < end => {}
            _ => return self.low.push_back(sending),
        }
        if self.high.back().is_some_and(|last| last.end <= start) {
            return self.high.push_back(sending);
        }
        self.move_gap(start);
        self.overwrite(start, end);
        self.low.push_back(sending);
    }

    /// Moves all records that end at `at` or before to the lower side of the gap, and the others to its upper side.
    fn move_gap(&mut self, at: u64) {
        while let Some(&last) = self.low.back()
            && last.end > at
        {
            self.low.pop_back();
            self.high.push_front(last);
        }
        while let Some(&first) = self.high.front()
            && first.end <= at
        {
            self.high.pop_front();
            self.low.push_back(first);
        }
    }

    /// Removes `[start, end)` from the records on the upper side of the gap, which begins at `start`.
    fn overwrite(&mut self, start: u64, end: u64) {
        if let Some(first) = self.high.front_mut()
            && first.start < start
        {
            self.low.push_back(Sending { end: start, ..*first });
            first.start = start;
        }
        drop_below(&mut self.high, end);
        if let Some(next) = self.high.front_mut() {
            next.start = next.start.max(end);
        }
    }

    /// Returns the record of the byte at `at`.
    fn of(&self, at: u64) -> Option<&Sending> {
        let below = self.low.back().is_some_and(|last| at < last.end);
        let side = if below { &self.low } else { &self.high };
        // The first record is checked first, because most queries are for the lowest unacknowledged byte.
        let first = side.front()?;
        let sending =
            if at < first.end { first } else { side.get(side.partition_point(|other| other.end <= at))? };
        (sending.start <= at).then_some(sending)
    }

    fn forget_below(&mut self, una: u64) {
        drop_below(&mut self.low, una);
        if self.low.is_empty() {
            drop_below(&mut self.high, una);
        }
    }
}

/// Removes records that end at `at` or before.
fn drop_below(sendings: &mut VecDeque<Sending>, at: u64) {
    while sendings.front().is_some_and(|first| first.end <= at) {
        sendings.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::time::Duration;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn newest_transmission_of_each_byte_counts(
            steps in proptest::collection::vec((0_u8..3, 0_u64..100, 1_u64..30, 0_u64..120), 0..60),
        ) {
            let (mut dues, mut model, mut una) = (Dues::default(), [None; 130], 0);
            for (step, (path, start, len, below)) in (0_u64..).zip(steps) {
                let due = Time::ZERO + Duration::from_millis(step);
                dues.set(PathId(path), (start, start + len), due);
                model[start as usize..(start + len) as usize].fill(Some(due));
                una = una.max(below / 2);
                dues.forget_below(una);
                for at in una..130 {
                    prop_assert_eq!(dues.of(at), model[at as usize]);
                }
                for path in &dues.paths {
                    let sendings: Vec<_> = path.low.iter().chain(&path.high).collect();
                    prop_assert!(sendings.windows(2).all(|pair| pair[0].end <= pair[1].start));
                    prop_assert!(sendings.iter().all(|sending| sending.start < sending.end));
                }
            }
        }
    }
}
