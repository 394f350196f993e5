//! A set of disjoint, non-adjacent half-open ranges of stream offsets. Each operation costs O(log n), plus the ranges
//! that it merges or splits, whatever the order of arrival.
//!
//! A small set, which is the usual case, is a sorted vector, because moving some elements of a vector costs less than
//! the nodes of a tree. A set that grows beyond [`MAX_SORTED_RANGES`] ranges (many small pieces that never join) is
//! moved to a tree, where an operation stays O(log n).

use std::collections::BTreeMap;

/// Maximum number of ranges that are kept in a sorted vector.
const MAX_SORTED_RANGES: usize = 64;

/// Half-open ranges `[start, end)` over `u64`, kept merged.
#[derive(Clone, Debug, Default)]
pub struct RangeSet {
    /// All ranges in ascending order, while the set is a sorted vector. The set becomes one again when it is empty.
    few: Vec<(u64, u64)>,
    /// All ranges while the set is a tree: the end of each range, by its start.
    many: BTreeMap<u64, u64>,
    covered: u64,
}

impl RangeSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// True if the set has no ranges. No range is empty, so this is the case exactly if the sum of lengths is zero.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.covered == 0
    }

    /// Returns the number of disjoint ranges.
    pub fn count(&self) -> usize {
        self.few.len() + self.many.len()
    }

    /// Returns the sum of the lengths of all ranges.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// Returns the lowest range.
    #[inline]
    pub fn first(&self) -> Option<(u64, u64)> {
        if self.is_empty() { None } else { self.first_of_some() }
    }

    fn first_of_some(&self) -> Option<(u64, u64)> {
        self.few.first().copied().or_else(|| self.many.first_key_value().map(|(&s, &e)| (s, e)))
    }

    /// Returns the highest range.
    #[inline]
    pub fn last(&self) -> Option<(u64, u64)> {
        if self.is_empty() { None } else { self.last_of_some() }
    }

    fn last_of_some(&self) -> Option<(u64, u64)> {
        self.few.last().copied().or_else(|| self.many.last_key_value().map(|(&s, &e)| (s, e)))
    }

    /// Iterates over all ranges in ascending order; `rev()` gives descending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.few.iter().copied().chain(self.many.iter().map(|(&s, &e)| (s, e)))
    }

    /// Iterates over the ranges that begin at `at` or above, in ascending order.
    pub fn iter_from(&self, at: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let few = &self.few[self.few.partition_point(|&(start, _)| start < at)..];
        few.iter().copied().chain(self.many.range(at..).map(|(&s, &e)| (s, e)))
    }

    /// Returns the number of ranges that begin below `at`.
    pub fn count_below(&self, at: u64) -> usize {
        self.few.partition_point(|&(start, _)| start < at) + self.many.range(..at).count()
    }

    /// Returns the range that contains `at`.
    pub fn range_at(&self, at: u64) -> Option<(u64, u64)> {
        let last = self.last()?;
        let candidate = if last.0 <= at {
            last
        } else if self.many.is_empty() {
            *self.few.get(self.few.partition_point(|&(_, end)| end <= at))?
        } else {
            self.many.range(..=at).next_back().map(|(&s, &e)| (s, e))?
        };
        (candidate.0 <= at && at < candidate.1).then_some(candidate)
    }

    /// True if `at` is in the set.
    pub fn contains(&self, at: u64) -> bool {
        self.range_at(at).is_some()
    }

    /// Returns the first range that ends above `at`; it may contain `at`.
    pub fn next_from(&self, at: u64) -> Option<(u64, u64)> {
        let first = self.first()?;
        if first.1 > at {
            return Some(first);
        }
        if self.many.is_empty() {
            return self.few.get(self.few.partition_point(|&(_, end)| end <= at)).copied();
        }
        self.range_at(at).or_else(|| self.many.range(at..).next().map(|(&s, &e)| (s, e)))
    }

    /// Returns the last range that begins below `at`; it may contain `at`.
    pub fn last_before(&self, at: u64) -> Option<(u64, u64)> {
        let last = self.last()?;
        if last.0 < at {
            return Some(last);
        }
        if self.many.is_empty() {
            let before = self.few.partition_point(|&(start, _)| start < at);
            return self.few.get(before.checked_sub(1)?).copied();
        }
        self.many.range(..at).next_back().map(|(&s, &e)| (s, e))
    }

    /// Adds `[start, end)`; returns the number of its bytes that were not in the set before.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let new = if self.many.is_empty() {
            let new = insert_into_few(&mut self.few, start, end);
            if self.few.len() > MAX_SORTED_RANGES {
                self.many.extend(self.few.drain(..));
            }
            new
        } else {
            insert_into_many(&mut self.many, start, end)
        };
        self.covered += new;
        new
    }

    /// Removes `[start, end)`; returns the number of its bytes that were in the set.
    pub fn remove(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let gone = if self.many.is_empty() {
            remove_from_few(&mut self.few, start, end)
        } else {
            remove_from_many(&mut self.many, start, end)
        };
        self.covered -= gone;
        gone
    }

    /// Removes the ranges that end at `at` or before. A range that extends beyond `at` remains whole.
    pub fn forget_below(&mut self, at: u64) {
        if self.first().is_none_or(|(_, end)| end > at) {
            return;
        }
        let below = self.few.partition_point(|&(_, end)| end <= at);
        self.covered -= self.few.drain(..below).map(|(start, end)| end - start).sum::<u64>();
        while let Some(first) = self.many.first_entry()
            && *first.get() <= at
        {
            self.covered -= first.get() - first.key();
            first.remove();
        }
    }

    /// Extends the in-order data from `at` to `end`, for a set of the data above `at`. Removes all ranges that the
    /// in-order data now reach. Returns the new end of the in-order data, and the number of bytes from `at` to `end`
    /// that were not in the set.
    #[inline]
    pub fn absorb(&mut self, at: u64, end: u64) -> (u64, u64) {
        if self.is_empty() { (end, end - at) } else { self.absorb_some(at, end) }
    }

    fn absorb_some(&mut self, at: u64, end: u64) -> (u64, u64) {
        let (mut reached, mut known) = (end, 0);
        let mut take = |(s, e): (u64, u64)| {
            let touches = s <= reached;
            if touches {
                self.covered -= e - s;
                known += e.min(end).saturating_sub(s.max(at));
                reached = reached.max(e);
            }
            touches
        };
        let taken = self.few.iter().take_while(|&&range| take(range)).count();
        self.few.drain(..taken);
        while let Some(first) = self.many.first_entry()
            && take((*first.key(), *first.get()))
        {
            first.remove();
        }
        (reached, (end - at) - known)
    }

    /// Iterates over the parts of `[start, end)` that are not in the set, in ascending order.
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

    /// Removes all ranges.
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.few.clear();
            self.many.clear();
            self.covered = 0;
        }
    }
}

/// Compares the ranges. Two sets with the same ranges are equal even if one is a vector and the other a tree.
impl PartialEq for RangeSet {
    fn eq(&self, other: &Self) -> bool {
        self.covered == other.covered && self.iter().eq(other.iter())
    }
}

impl Eq for RangeSet {}

/// See [`RangeSet::insert`].
fn insert_into_few(few: &mut Vec<(u64, u64)>, start: u64, end: u64) -> u64 {
    // In the usual case, the new range lies behind all others or extends the last one.
    match few.last_mut() {
        Some((first, last)) if *first <= start && start <= *last => {
            let new = end.saturating_sub(*last);
            *last += new;
            return new;
        }
        Some((first, _)) if start < *first => {}
        _ => {
            few.push((start, end));
            return end - start;
        }
    }
    let at = few.partition_point(|&(_, known)| known < start);
    let (mut merged, mut known, mut touched) = ((start, end), 0, 0);
    while let Some(&(from, to)) = few.get(at + touched)
        && from <= end
    {
        known += to.min(end) - from.max(start);
        merged = (merged.0.min(from), merged.1.max(to));
        touched += 1;
    }
    if touched == 0 {
        few.insert(at, merged);
    } else {
        few[at] = merged;
        if touched > 1 {
            few.drain(at + 1..at + touched);
        }
    }
    end - start - known
}

/// See [`RangeSet::remove`].
fn remove_from_few(few: &mut Vec<(u64, u64)>, start: u64, end: u64) -> u64 {
    let at = few.partition_point(|&(_, known)| known <= start);
    let (mut gone, mut touched) = (0, 0);
    let (mut before, mut behind) = (None, None);
    while let Some(&(from, to)) = few.get(at + touched)
        && from < end
    {
        gone += to.min(end) - from.max(start);
        before = before.or((from < start).then_some((from, start)));
        behind = (to > end).then_some((end, to));
        touched += 1;
    }
    if touched > 0 {
        few.splice(at..at + touched, before.into_iter().chain(behind));
    }
    gone
}

/// See [`RangeSet::insert`].
fn insert_into_many(many: &mut BTreeMap<u64, u64>, start: u64, end: u64) -> u64 {
    match many.last_entry() {
        Some(mut last) if *last.key() <= start && start <= *last.get() => {
            let new = end.saturating_sub(*last.get());
            *last.get_mut() += new;
            return new;
        }
        Some(last) if start < *last.key() => {}
        _ => {
            many.insert(start, end);
            return end - start;
        }
    }
    // In another common case, the new range continues an existing one and does not reach the following one.
    let following = many.range(start + 1..).next().map(|(&s, _)| s);
    if let Some((_, before)) = many.range_mut(..=start).next_back()
        && start <= *before
        && following.is_none_or(|following| end < following)
    {
        let new = end.saturating_sub(*before);
        *before += new;
        return new;
    }
    let (mut low, mut high, mut known) = (start, end, 0);
    if let Some((&s, &e)) = many.range(..=start).next_back()
        && e >= start
    {
        if e >= end {
            return 0;
        }
        known += e - start;
        low = s;
        many.remove(&s);
    }
    while let Some((&s, &e)) = many.range(low..).next() {
        if s > end {
            break;
        }
        known += e.min(end) - s;
        high = high.max(e);
        many.remove(&s);
    }
    many.insert(low, high);
    (end - start) - known
}

/// See [`RangeSet::remove`].
fn remove_from_many(many: &mut BTreeMap<u64, u64>, start: u64, end: u64) -> u64 {
    let mut gone = 0;
    if let Some((&s, &e)) = many.range(..=start).next_back()
        && e > start
    {
        gone += e.min(end) - start;
        many.remove(&s);
        if s < start {
            many.insert(s, start);
        }
        if e > end {
            many.insert(end, e);
        }
    }
    while let Some((&s, &e)) = many.range(start..end).next() {
        gone += e.min(end) - s;
        many.remove(&s);
        if e > end {
            many.insert(end, e);
        }
    }
    gone
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
    fn ranges_below_are_counted_in_list_and_tree() {
        let mut set = RangeSet::new();
        for number in 0..2 * MAX_SORTED_RANGES as u64 {
            set.insert(10 * number, 10 * number + 5);
            let counts = [0, 1, 10, 10 * number, 10 * number + 1].map(|at| set.count_below(at) as u64);
            assert_eq!(counts, [0, 1, 1, number, number + 1], "{number}");
        }
    }

    #[test]
    fn absorb_removes_reached_ranges() {
        let mut set = RangeSet::new();
        assert_eq!(set.absorb(0, 10), (10, 10));
        set.insert(15, 18);
        set.insert(20, 30);
        set.insert(40, 50);
        assert_eq!(set.absorb(10, 20), (30, 7));
        assert_eq!(set.iter().collect::<Vec<_>>(), [(40, 50)]);
        assert_eq!(set.absorb(30, 35), (35, 5));
    }

    /// Applies one operation to a set and to the equivalent set of bytes, and compares the results.
    fn step(
        (set, model): (&mut RangeSet, &mut BTreeSet<u64>),
        (add, start, len): (bool, u64, u64),
    ) -> Result<(), TestCaseError> {
        let span = start..start + len;
        if add {
            let new = span.clone().filter(|&b| model.insert(b)).count() as u64;
            prop_assert_eq!(set.insert(start, start + len), new);
        } else {
            let gone = span.clone().filter(|b| model.remove(b)).count() as u64;
            prop_assert_eq!(set.remove(start, start + len), gone);
        }
        prop_assert_eq!(set.covered(), model.len() as u64);
        Ok(())
    }

    proptest! {
        #[test]
        fn ranges_equal_a_set_of_bytes(
            steps in prop::collection::vec((any::<bool>(), 0_u64..200, 0_u64..40), 0..60),
            window in (0_u64..250, 0_u64..250),
        ) {
            let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
            for (add, start, len) in steps {
                step((&mut set, &mut model), (add, start, len))?;
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

        /// A set grows beyond the limit of a sorted vector, and shrinks afterwards.
        #[test]
        fn tree_equals_sorted_vector(
            steps in prop::collection::vec((0_u64..10, 0_u64..2000, 1_u64..4), 150..400),
            (window, below) in ((0_u64..2000, 0_u64..2000), 0_u64..2000),
        ) {
            let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
            for (kind, start, len) in steps {
                let len = if kind == 0 { 100 * len } else { len };
                step((&mut set, &mut model), (kind > 1, start, len))?;
                let at = start + len;
                let (mut low, mut high) = (at, at);
                while low > 0 && model.contains(&(low - 1)) && model.contains(&at) {
                    low -= 1;
                }
                while model.contains(&high) {
                    high += 1;
                }
                prop_assert_eq!(set.range_at(at), (high > at).then_some((low, high)));
                let ranges: Vec<_> = set.iter().collect();
                let before = ranges.iter().rev().find(|range| range.0 < at).copied();
                let next = ranges.iter().find(|range| range.1 > at).copied();
                prop_assert_eq!((set.last_before(at), set.next_from(at)), (before, next));
                prop_assert_eq!((set.first(), set.last()), (ranges.first().copied(), ranges.last().copied()));
                prop_assert_eq!((set.count(), set.is_empty()), (ranges.len(), ranges.is_empty()));
            }
            let bytes: Vec<u64> = set.iter().flat_map(|(s, e)| s..e).collect();
            prop_assert_eq!(&bytes, &model.iter().copied().collect::<Vec<_>>());
            let above: Vec<_> = set.iter_from(window.0).collect();
            prop_assert_eq!(above, set.iter().filter(|range| range.0 >= window.0).collect::<Vec<_>>());
            let gaps: Vec<u64> = set.gaps(window.0, window.1).flat_map(|(s, e)| s..e).collect();
            prop_assert_eq!(gaps, (window.0..window.1).filter(|b| !model.contains(b)).collect::<Vec<_>>());

            // Inserting the ranges in descending order results in an equal set. Both sets forget the same ranges below
            // an offset.
            let mut again = RangeSet::new();
            set.iter().rev().for_each(|(start, end)| assert_eq!(again.insert(start, end), end - start));
            prop_assert_eq!(&again, &set);
            let kept: Vec<_> = set.iter().filter(|&(_, end)| end > below).collect();
            set.forget_below(below);
            prop_assert_eq!(set.covered(), kept.iter().map(|(start, end)| end - start).sum::<u64>());
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), kept);

            // A long extension of the in-order data removes all ranges that it reaches.
            let waiting: Vec<_> = again.iter().collect();
            let absorbed = again.absorb(0, below + 1);
            let mut reached = below + 1;
            waiting.iter().filter(|range| range.0 <= below + 1).for_each(|range| reached = reached.max(range.1));
            let known = bytes.iter().filter(|&&byte| byte < below + 1).count() as u64;
            prop_assert_eq!(absorbed, (reached, below + 1 - known));
            prop_assert!(again.iter().all(|(start, _)| start > reached));
            prop_assert_eq!(again.covered(), again.iter().map(|(start, end)| end - start).sum::<u64>());
            again.clear();
            prop_assert_eq!((again.covered(), again.is_empty()), (0, true));
        }
    }
}
