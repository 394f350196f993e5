//! The set of numbers that a capture contains, with bounded memory: one span with gaps.

/// Maximum number of kept gaps; a further one removes the lowest.
const MAX_GAPS: usize = 256;

/// A gap `[from, to)`, and the time at which the first number behind it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    from: u64,
    to: u64,
    since_ns: u64,
}

/// Numbers `[start, end)` without the gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    start: u64,
    end: u64,
    gaps: Vec<Gap>,
    forgotten: u64,
}

/// Result of adding a range: how many of its numbers were new, in gaps, or already in the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Added {
    /// Count of numbers above the highest number of the set.
    pub new: u64,
    /// Count of numbers in gaps or below the first number.
    pub filled: u64,
    /// Count of those `filled` numbers that were in gaps older than the given time.
    pub filled_late: u64,
    /// Count of numbers that were in the set before.
    pub repeated: u64,
}

impl Seen {
    /// An empty set; the first number is expected to be `start`.
    pub fn new(start: u64) -> Self {
        Self { start, end: start, gaps: Vec::new(), forgotten: 0 }
    }

    /// The number behind the highest one.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The lowest number.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Count of numbers between the lowest and the highest that are not in the set.
    pub fn missing(&self) -> u64 {
        self.forgotten + self.gaps.iter().map(|gap| gap.to - gap.from).sum::<u64>()
    }

    /// Count of numbers below `to` that are not in the set, although higher ones are.
    pub fn missing_below(&self, to: u64) -> u64 {
        let below = self.gaps.iter().take_while(|gap| gap.from < to).map(|gap| gap.to.min(to) - gap.from);
        self.forgotten + below.sum::<u64>()
    }

    /// Count of numbers in the set.
    pub fn count(&self) -> u64 {
        (self.end - self.start) - self.missing()
    }

    /// Adds `[from, to)` at the time `now_ns`. Numbers in gaps older than `late_ns` count as filled late.
    pub fn add(&mut self, (from, to): (u64, u64), now_ns: u64, late_ns: u64) -> Added {
        let mut added = Added::default();
        if from >= to {
            return added;
        }
        if from < self.start {
            added.filled += self.start.min(to) - from;
            if to < self.start {
                self.push_gap(Gap { from: to, to: self.start, since_ns: now_ns }, 0);
            }
            self.start = from;
        }
        if to > self.end {
            if from > self.end {
                let at = self.gaps.len();
                self.push_gap(Gap { from: self.end, to: from, since_ns: now_ns }, at);
            }
            added.new = to - from.max(self.end);
            self.end = to;
        }
        let (filled, late) = self.fill(from, to, now_ns.saturating_sub(late_ns));
        added.filled += filled;
        added.filled_late = late;
        added.repeated = (to - from) - added.new - added.filled;
        added
    }

    /// Closes all gaps below `to`, because no more numbers are expected there.
    pub fn skip_to(&mut self, to: u64) {
        if to > self.end {
            self.forgotten += to - self.end;
            self.end = to;
        }
    }

    /// Removes `[from, to)` from the gaps; returns the count of removed numbers, and how many of them were in gaps
    /// that opened before `before_ns`.
    fn fill(&mut self, from: u64, to: u64, before_ns: u64) -> (u64, u64) {
        let first = self.gaps.partition_point(|gap| gap.to <= from);
        let (mut at, mut filled, mut late) = (first, 0, 0);
        while let Some(&gap) = self.gaps.get(at) {
            if gap.from >= to {
                break;
            }
            let (low, high) = (gap.from.max(from), gap.to.min(to));
            filled += high - low;
            if gap.since_ns <= before_ns {
                late += high - low;
            }
            self.gaps.remove(at);
            if gap.from < low {
                self.push_gap(Gap { to: low, ..gap }, at);
                at += 1;
            }
            if high < gap.to {
                self.push_gap(Gap { from: high, ..gap }, at);
                at += 1;
            }
        }
        (filled, late)
    }

    fn push_gap(&mut self, gap: Gap, at: usize) {
        self.gaps.insert(at.min(self.gaps.len()), gap);
        if self.gaps.len() > MAX_GAPS {
            let lowest = self.gaps.remove(0);
            self.forgotten += lowest.to - lowest.from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(seen: &mut Seen, from: u64, to: u64) -> (u64, u64, u64) {
        let added = seen.add((from, to), 0, 1);
        (added.new, added.filled, added.repeated)
    }

    #[test]
    fn new_filled_and_repeated_numbers_are_distinguished() {
        let mut seen = Seen::new(100);
        assert_eq!(add(&mut seen, 100, 110), (10, 0, 0));
        assert_eq!(add(&mut seen, 105, 115), (5, 0, 5));
        assert_eq!(add(&mut seen, 120, 130), (10, 0, 0));
        assert_eq!((seen.missing(), seen.count()), (5, 25));
        assert_eq!([0, 116, 117, 130].map(|to| seen.missing_below(to)), [0, 1, 2, 5]);
        assert_eq!(add(&mut seen, 112, 122), (0, 5, 5));
        assert_eq!((seen.missing(), seen.count(), seen.end()), (0, 30, 130));
        assert_eq!(add(&mut seen, 100, 130), (0, 0, 30));
        assert_eq!(add(&mut seen, 7, 7), (0, 0, 0));
    }

    #[test]
    fn numbers_below_the_lowest_lower_the_start() {
        let mut seen = Seen::new(100);
        add(&mut seen, 100, 110);
        assert_eq!(add(&mut seen, 80, 90), (0, 10, 0));
        assert_eq!((seen.start(), seen.missing()), (80, 10));
        assert_eq!(add(&mut seen, 85, 105), (0, 10, 10));
        assert_eq!((seen.missing(), seen.count()), (0, 30));
    }

    #[test]
    fn middle_of_a_gap_splits_it() {
        let mut seen = Seen::new(0);
        add(&mut seen, 100, 101);
        assert_eq!(add(&mut seen, 40, 50), (0, 10, 0));
        assert_eq!(add(&mut seen, 30, 60), (0, 20, 10));
        assert_eq!(seen.missing(), 70);
    }

    #[test]
    fn gap_age_counts_from_its_discovery() {
        let mut seen = Seen::new(0);
        seen.add((10, 20), 1_000, 0);
        assert_eq!(seen.add((0, 5), 1_400, 500).filled_late, 0);
        assert_eq!(seen.add((5, 10), 1_600, 500).filled_late, 5);
    }

    #[test]
    fn number_of_gaps_is_bounded() {
        let mut seen = Seen::new(0);
        for at in 0..100_000 {
            seen.add((2 * at, 2 * at + 1), at, 0);
        }
        assert!(seen.gaps.len() <= MAX_GAPS);
        assert_eq!(seen.count(), 100_000);
    }
}
