//! A set of disjoint, non-adjacent half-open ranges of stream offsets. Every operation costs O(log n) plus
//! the ranges it merges or splits, whatever the order in which they arrive.

use std::collections::BTreeMap;

/// Half-open ranges `[start, end)` over `u64`, kept merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    // start -> end
    ranges: BTreeMap<u64, u64>,
    covered: u64,
}

impl RangeSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// True without any range.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many disjoint ranges there are.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Sum of the lengths of all ranges.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// The lowest range.
    pub fn first(&self) -> Option<(u64, u64)> {
        self.ranges.first_key_value().map(|(&s, &e)| (s, e))
    }

    /// The highest range.
    pub fn last(&self) -> Option<(u64, u64)> {
        self.ranges.last_key_value().map(|(&s, &e)| (s, e))
    }

    /// All ranges in ascending order (and, reversed, in descending order).
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(&s, &e)| (s, e))
    }

    /// The ranges that begin at `at` or above, in ascending order.
    pub fn iter_from(&self, at: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.range(at..).map(|(&s, &e)| (s, e))
    }

    /// The range that holds `at`.
    pub fn range_at(&self, at: u64) -> Option<(u64, u64)> {
        let (start, end) = self.last()?;
        let (start, end) = if start <= at {
            (start, end)
        } else {
            self.ranges.range(..=at).next_back().map(|(&s, &e)| (s, e))?
        };
        (end > at).then_some((start, end))
    }

    /// True if `at` is in the set.
    pub fn contains(&self, at: u64) -> bool {
        self.range_at(at).is_some()
    }

    /// The first range that ends above `at` (it may hold `at`).
    pub fn next_from(&self, at: u64) -> Option<(u64, u64)> {
        let first = self.first()?;
        if first.1 > at {
            return Some(first);
        }
        self.range_at(at).or_else(|| self.ranges.range(at..).next().map(|(&s, &e)| (s, e)))
    }

    /// The last range that begins below `at` (it may hold `at`).
    pub fn last_before(&self, at: u64) -> Option<(u64, u64)> {
        self.ranges.range(..at).next_back().map(|(&s, &e)| (s, e))
    }

    /// Adds `[start, end)`; returns how many of its bytes were new.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        // Mostly what comes is behind all that is there, or the next part of the last.
        match self.ranges.last_entry() {
            Some(mut last) if *last.key() <= start && start <= *last.get() => {
                let new = end.saturating_sub(*last.get());
                *last.get_mut() += new;
                self.covered += new;
                return new;
            }
            Some(last) if start < *last.key() => {}
            _ => {
                self.ranges.insert(start, end);
                self.covered += end - start;
                return end - start;
            }
        }
        // Or the next part of some range, which does not reach the one that follows.
        let following = self.ranges.range(start + 1..).next().map(|(&s, _)| s);
        if let Some((_, before)) = self.ranges.range_mut(..=start).next_back()
            && start <= *before
            && following.is_none_or(|following| end < following)
        {
            let new = end.saturating_sub(*before);
            *before += new;
            self.covered += new;
            return new;
        }
        let (mut low, mut high, mut known) = (start, end, 0);
        if let Some((&s, &e)) = self.ranges.range(..=start).next_back()
            && e >= start
        {
            if e >= end {
                return 0;
            }
            known += e - start;
            low = s;
            self.ranges.remove(&s);
        }
        while let Some((&s, &e)) = self.ranges.range(low..).next() {
            if s > end {
                break;
            }
            known += e.min(end) - s;
            high = high.max(e);
            self.ranges.remove(&s);
        }
        self.ranges.insert(low, high);
        let new = (end - start) - known;
        self.covered += new;
        new
    }

    /// Takes `[start, end)` out; returns how many bytes of it were in the set.
    pub fn remove(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let mut gone = 0;
        if let Some((s, e)) = self.range_at(start) {
            gone += e.min(end) - start;
            self.ranges.remove(&s);
            if s < start {
                self.ranges.insert(s, start);
            }
            if e > end {
                self.ranges.insert(end, e);
            }
        }
        while let Some((&s, &e)) = self.ranges.range(start..end).next() {
            gone += e.min(end) - s;
            self.ranges.remove(&s);
            if e > end {
                self.ranges.insert(end, e);
            }
        }
        self.covered -= gone;
        gone
    }

    /// An in-order part that ended at `at`, below all that waits here, now reaches `end`, and takes in what touches it.
    /// Returns how far it reaches then, and how many bytes up to `end` had not been waiting here.
    pub fn absorb(&mut self, at: u64, end: u64) -> (u64, u64) {
        let (mut reached, mut known) = (end, 0);
        while let Some((s, e)) = self.first()
            && s <= reached
        {
            self.ranges.pop_first();
            self.covered -= e - s;
            known += e.min(end).saturating_sub(s.max(at));
            reached = reached.max(e);
        }
        (reached, (end - at) - known)
    }

    /// The parts of `[start, end)` that are not in the set, ascending.
    pub fn gaps(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = start;
        core::iter::from_fn(move || {
            while at < end {
                match self.next_from(at) {
                    Some((s, e)) if s <= at => at = e,
                    Some((s, e)) if s < end => {
                        let gap = (at, s);
                        at = e;
                        return Some(gap);
                    }
                    _ => {
                        let gap = (at, end);
                        at = end;
                        return Some(gap);
                    }
                }
            }
            None
        })
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
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn adjacent_and_overlapping_ranges_merge() {
        let mut set = RangeSet::new();
        assert_eq!(set.insert(10, 20), 10);
        assert_eq!(set.insert(30, 40), 10);
        assert_eq!(set.insert(20, 25), 5);
        assert_eq!(set.insert(15, 35), 5);
        assert_eq!(set.iter().collect::<Vec<_>>(), [(10, 40)]);
        assert_eq!(set.remove(12, 14), 2);
        assert_eq!(set.iter().collect::<Vec<_>>(), [(10, 12), (14, 40)]);
        assert_eq!(set.gaps(0, 50).collect::<Vec<_>>(), [(0, 10), (12, 14), (40, 50)]);
        assert_eq!(set.next_from(12), Some((14, 40)));
        assert_eq!((set.last_before(10), set.last_before(14)), (None, Some((10, 12))));
        assert_eq!((set.last_before(15), set.last_before(99)), (Some((14, 40)), Some((14, 40))));
    }

    #[test]
    fn what_waited_joins_the_part_that_reaches_it() {
        let mut set = RangeSet::new();
        assert_eq!(set.absorb(0, 10), (10, 10));
        set.insert(15, 18);
        set.insert(20, 30);
        set.insert(40, 50);
        assert_eq!(set.absorb(10, 20), (30, 7));
        assert_eq!(set.iter().collect::<Vec<_>>(), [(40, 50)]);
        assert_eq!(set.absorb(30, 35), (35, 5));
    }

    proptest! {
        #[test]
        fn behaves_like_a_set_of_bytes(
            steps in prop::collection::vec((any::<bool>(), 0_u64..200, 0_u64..40), 0..60),
            window in (0_u64..250, 0_u64..250),
        ) {
            let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
            for (add, start, len) in steps {
                let span = start..start + len;
                if add {
                    let new = span.clone().filter(|&b| model.insert(b)).count() as u64;
                    prop_assert_eq!(set.insert(start, start + len), new);
                } else {
                    let gone = span.clone().filter(|b| model.remove(b)).count() as u64;
                    prop_assert_eq!(set.remove(start, start + len), gone);
                }
                prop_assert_eq!(set.covered(), model.len() as u64);
                let bytes: Vec<u64> = set.iter().flat_map(|(s, e)| s..e).collect();
                prop_assert_eq!(bytes, model.iter().copied().collect::<Vec<_>>());
                prop_assert!(set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.1 < b.0));
            }
            let above: Vec<_> = set.iter_from(window.0).collect();
            prop_assert_eq!(above, set.iter().filter(|range| range.0 >= window.0).collect::<Vec<_>>());
            let gaps: Vec<u64> = set.gaps(window.0, window.1).flat_map(|(s, e)| s..e).collect();
            let missing: Vec<u64> = (window.0..window.1).filter(|b| !model.contains(b)).collect();
            prop_assert_eq!(gaps, missing);
        }
    }
}
