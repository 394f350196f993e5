//! What has been had of the window: few ranges, mostly taken from and added to at their ends. A ring holds them without the
//! nodes of a tree, and only what is in its middle has to be moved.

use std::collections::VecDeque;

/// Half-open ranges, disjoint and not adjacent, in ascending order. What is found costs O(log n), what is added O(n) at most.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    ranges: VecDeque<(u64, u64)>,
    covered: u64,
}

impl Ranges {
    /// Bytes had from `una` on, below which no range ends (see [`forget_below`](Self::forget_below)).
    pub fn covered_from(&self, una: u64) -> u64 {
        self.covered - self.ranges.front().map_or(0, |&(start, _)| una.saturating_sub(start))
    }

    /// The range that holds `at`.
    pub fn range_at(&self, at: u64) -> Option<(u64, u64)> {
        self.next_from(at).filter(|&(start, _)| start <= at)
    }

    /// `at` has been had.
    pub fn contains(&self, at: u64) -> bool {
        self.range_at(at).is_some()
    }

    /// The first range that ends above `at` (it may hold `at`).
    pub fn next_from(&self, at: u64) -> Option<(u64, u64)> {
        self.ranges.get(self.ranges.partition_point(|&(_, end)| end <= at)).copied()
    }

    /// The last range that begins below `at` (it may hold `at`).
    pub fn last_before(&self, at: u64) -> Option<(u64, u64)> {
        let before = self.ranges.partition_point(|&(start, _)| start < at);
        self.ranges.get(before.checked_sub(1)?).copied()
    }

    /// Adds `[start, end)`, which is not empty; returns how many of its bytes were new.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        let at = self.ranges.partition_point(|&(_, known)| known < start);
        let (mut merged, mut known, mut touched) = ((start, end), 0, 0);
        while let Some(&(from, to)) = self.ranges.get(at + touched)
            && from <= end
        {
            known += to.min(end) - from.max(start);
            merged = (merged.0.min(from), merged.1.max(to));
            touched += 1;
        }
        if touched == 0 {
            self.ranges.insert(at, merged);
        } else {
            self.ranges[at] = merged;
            if touched > 1 {
                self.ranges.drain(at + 1..at + touched);
            }
        }
        let new = end - start - known;
        self.covered += new;
        new
    }

    /// Forgets the ranges that end at `una` or before. One that has begun before remains whole: it is cut once and not with each
    /// acknowledgement.
    pub fn forget_below(&mut self, una: u64) {
        while let Some(&(start, end)) = self.ranges.front()
            && end <= una
        {
            self.covered -= end - start;
            self.ranges.pop_front();
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.covered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::RangeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_ring_holds_what_a_tree_does(
            steps in proptest::collection::vec((0_u64..200, 1_u64..40, 0_u64..220), 0..60),
        ) {
            let (mut ring, mut tree, mut una) = (Ranges::default(), RangeSet::new(), 0);
            for (start, len, below) in steps {
                let (start, end) = (una + start, una + start + len);
                prop_assert_eq!(ring.insert(start, end), tree.insert(start, end));
                una = una.max(below);
                ring.forget_below(una);
                while let Some((start, end)) = tree.first().filter(|&(_, end)| end <= una) {
                    tree.remove(start, end);
                }
                let below = tree.first().map_or(0, |(start, _)| una.saturating_sub(start));
                prop_assert_eq!(ring.covered_from(una), tree.covered() - below);
                prop_assert!(ring.ranges.iter().copied().eq(tree.iter()));
                for at in 0..500 {
                    prop_assert_eq!(ring.range_at(at), tree.range_at(at));
                    prop_assert_eq!(ring.next_from(at), tree.next_from(at));
                    prop_assert_eq!(ring.last_before(at), tree.last_before(at));
                    prop_assert_eq!(ring.contains(at), tree.contains(at));
                }
            }
            ring.clear();
            prop_assert_eq!((ring.covered_from(0), ring.ranges.len()), (0, 0));
        }
    }
}
