//! Runs of TSNs that are acknowledged after a gap, and the changes made by the next SACK.

use anabranch_wire::sctp::GapBlock;

/// Runs of TSNs: the first TSN, and the one after the last; ascending and disjoint.
pub(crate) type Runs = Vec<(u64, u64)>;

/// Changes that a SACK makes to the runs of TSNs acknowledged after a gap. The value is reused for each SACK, so that
/// its lists keep their memory.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// Number of unchanged runs at both ends, and the runs between them.
    pub prefix: usize,
    pub suffix: usize,
    pub middle: Runs,
    /// TSNs acknowledged for the first time.
    pub fresh: Runs,
    /// TSNs that earlier SACKs acknowledged and this one does not (reneged).
    pub taken_back: Runs,
    /// True if the receiver promises to keep the newly acknowledged TSNs.
    pub kept: bool,
}

impl Change {
    /// Removes all changes.
    pub fn clear(&mut self) {
        (self.prefix, self.suffix, self.kept) = (0, 0, false);
        for runs in [&mut self.middle, &mut self.fresh, &mut self.taken_back] {
            runs.clear();
        }
    }
}

/// Converts gap blocks of a SACK to unwrapped TSNs, ascending and disjoint for any input. A block is ignored if its end
/// is before its start, or if it covers a TSN that must be missing.
pub(crate) fn absolute(runs: &mut Runs, cumulative: u64, renegable: &[GapBlock], kept: &[GapBlock]) {
    runs.clear();
    let mut tidy = true;
    for block in renegable.iter().chain(kept) {
        if block.start < 2 || block.end < block.start {
            continue;
        }
        let run = (cumulative + u64::from(block.start), cumulative + u64::from(block.end) + 1);
        tidy &= runs.last().is_none_or(|&(_, end)| end < run.0);
        runs.push(run);
    }
    if !tidy {
        runs.sort_unstable();
        runs.dedup_by(|next, last| {
            let joins = last.1 >= next.0;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
    }
}

/// Removes the TSNs below `from`.
pub(crate) fn clip(runs: &mut Runs, from: u64) {
    if runs.first().is_some_and(|&(_, end)| end <= from) {
        let gone = runs.partition_point(|&(_, end)| end <= from);
        runs.drain(..gone);
    }
    if let Some(first) = runs.first_mut() {
        first.0 = first.0.max(from);
    }
}

/// The parts of `left` that are not in `right`, ascending.
pub(crate) fn difference(left: &[(u64, u64)], right: &[(u64, u64)], mut part: impl FnMut(u64, u64)) {
    let mut next = 0;
    for &(start, end) in left {
        let mut at = start;
        while at < end {
            while next < right.len() && right[next].1 <= at {
                next += 1;
            }
            match right.get(next) {
                Some(&(from, to)) if from <= at => at = to,
                Some(&(from, _)) if from < end => {
                    part(at, from);
                    at = from;
                }
                _ => {
                    part(at, end);
                    at = end;
                }
            }
        }
    }
}

/// Appends the known runs above the last gap block of a SACK that had no room for more.
pub(crate) fn retain_tail(gaps: &mut Runs, known: &[(u64, u64)], limit: u64) {
    if limit == u64::MAX {
        return;
    }
    let first = known.partition_point(|&(_, end)| end <= limit);
    for &(start, end) in &known[first..] {
        let start = start.max(limit);
        match gaps.last_mut() {
            Some((_, last)) if *last >= start => *last = end.max(*last),
            _ => gaps.push((start, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_gap_blocks_are_normalised() {
        let block = GapBlock::new;
        let mut runs = vec![(1, 2)];
        absolute(&mut runs, 100, &[block(5, 7), block(3, 5), block(9, 8), block(1, 4), block(20, 20)], &[]);
        assert_eq!(runs, [(103, 108), (120, 121)]);
    }

    #[test]
    fn differences_are_exact() {
        let collect = |a: &[(u64, u64)], b: &[(u64, u64)]| {
            let mut out = Runs::new();
            difference(a, b, |s, e| out.push((s, e)));
            out
        };
        assert_eq!(collect(&[(2, 5), (8, 12)], &[(3, 4), (9, 20)]), [(2, 3), (4, 5), (8, 9)]);
        assert_eq!(collect(&[(2, 5)], &[]), [(2, 5)]);
        assert_eq!(collect(&[(2, 5), (6, 7)], &[(0, 10)]), []);
    }

    #[test]
    fn known_runs_beyond_the_last_gap_block_are_kept() {
        let mut gaps = vec![(10, 12), (14, 20)];
        retain_tail(&mut gaps, &[(11, 13), (18, 25), (30, 31)], 20);
        assert_eq!(gaps, [(10, 12), (14, 25), (30, 31)]);
    }
}
