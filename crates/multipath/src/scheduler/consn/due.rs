//! When what is under way should be acknowledged, byte by byte.

use crate::time::Time;
use std::collections::VecDeque;

/// Data that left at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sending {
    start: u64,
    end: u64,
    due: Time,
}

/// The newest sendings, disjoint and in the order of the data. It is consumed in order and grows at few places, so that a ring is
/// cheaper than a tree.
#[derive(Debug, Default)]
pub(super) struct Dues {
    sendings: VecDeque<Sending>,
}

impl Dues {
    /// `[start, end)` has left and should be acknowledged at `due`, whatever was known of any part of it.
    pub fn set(&mut self, (start, end): (u64, u64), due: Time) {
        let mut at = self.behind(start);
        if let Some(&first) = self.sendings.get(at)
            && first.start < start
        {
            self.sendings[at].end = start;
            at += 1;
            if first.end > end {
                self.sendings.insert(at, Sending { start: end, ..first });
            }
        }
        while let Some(next) = self.sendings.get_mut(at)
            && next.start < end
        {
            if next.end > end {
                next.start = end;
                break;
            }
            self.sendings.remove(at);
        }
        self.sendings.insert(at, Sending { start, end, due });
    }

    /// When the byte at `at` should be acknowledged, if it has been sent.
    pub fn of(&self, at: u64) -> Option<Time> {
        let sending = self.sendings.get(self.behind(at))?;
        (sending.start <= at).then_some(sending.due)
    }

    /// All below `una` is acknowledged.
    pub fn forget_below(&mut self, una: u64) {
        while self.sendings.front().is_some_and(|first| first.end <= una) {
            self.sendings.pop_front();
        }
    }

    /// The place of the first sending that ends behind `at`.
    fn behind(&self, at: u64) -> usize {
        self.sendings.partition_point(|sending| sending.end <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_newest_sending_of_each_byte_counts(
            steps in proptest::collection::vec((0_u64..100, 1_u64..30, 0_u64..120), 0..60),
        ) {
            let (mut dues, mut model, mut una) = (Dues::default(), [None; 130], 0);
            for (step, (start, len, below)) in (0_u64..).zip(steps) {
                let due = Time::ZERO + Duration::from_millis(step);
                dues.set((start, start + len), due);
                model[start as usize..(start + len) as usize].fill(Some(due));
                una = una.max(below / 2);
                dues.forget_below(una);
                for at in una..130 {
                    prop_assert_eq!(dues.of(at), model[at as usize]);
                }
                prop_assert!(dues.sendings.iter().zip(dues.sendings.iter().skip(1)).all(|(a, b)| a.end <= b.start));
            }
        }
    }
}
