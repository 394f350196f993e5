//! Times at which the undelivered data of a stream was written.

use anabranch_base::time::{Duration, Time};
use std::collections::VecDeque;

/// Smallest growth of the list of runs.
const MIN_GROWTH: usize = 8;

/// Consecutive data that was written at one time.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Bytes that are not delivered; 0 in a run that only continues the time to the next one.
    len: u32,
    /// Time since the run before it, nanoseconds.
    after: u32,
}

/// Written and not delivered data of a stream, in runs with one time of writing each.
///
/// A saturated flow has a run for each acknowledged segment of its send buffer, thousands with the default buffer. So a
/// run has 8 bytes: its length and its time are relative to those of the run before it.
#[derive(Clone, Debug, Default)]
pub struct WriteTimes {
    runs: VecDeque<Run>,
    /// Time of the first run.
    first: Time,
    /// Time of the last run.
    last: Time,
}

impl WriteTimes {
    /// Adds `len` bytes behind the others, written at `born`.
    ///
    /// # Panics
    ///
    /// If `born` is earlier than the time of the data written before.
    #[inline]
    pub fn push(&mut self, len: u64, born: Time) {
        if self.runs.is_empty() {
            (self.first, self.last) = (born, born);
        }
        assert!(born >= self.last, "data of {:?} precedes data of {born:?}", self.last);
        let after = born.since(self.last).as_nanos();
        self.last = born;
        match (self.runs.back_mut(), u32::try_from(len), u32::try_from(after)) {
            (Some(last), Ok(len), Ok(0)) if last.len.checked_add(len).is_some() => last.len += len,
            (_, Ok(len), Ok(after)) => self.add(Run { len, after }),
            _ => self.push_long(len, after),
        }
    }

    /// Adds a run. A full list grows by a quarter of its length; `Vec` alone would double it.
    #[inline]
    fn add(&mut self, run: Run) {
        if self.runs.len() == self.runs.capacity() {
            self.runs.reserve_exact(MIN_GROWTH.max(self.runs.len() / 4));
        }
        self.runs.push_back(run);
    }

    /// Adds a run whose length or time exceeds 32 bits, in parts.
    #[cold]
    fn push_long(&mut self, mut len: u64, mut after: u64) {
        const MAX: u64 = u32::MAX as u64;
        while after > MAX {
            self.add(Run { len: 0, after: u32::MAX });
            after -= MAX;
        }
        loop {
            self.add(Run { len: len.min(MAX) as u32, after: after as u32 });
            (len, after) = (len.saturating_sub(MAX), 0);
            if len == 0 {
                break;
            }
        }
    }

    /// Removes at most `max` bytes of one time from the front; returns their number and time. `None` without data.
    #[inline]
    pub fn take(&mut self, max: u64) -> Option<(u64, Time)> {
        loop {
            let first = self.runs.front_mut()?;
            let (taken, born) = (max.min(first.len.into()), self.first);
            first.len -= taken as u32;
            if first.len == 0 {
                self.runs.pop_front();
                let after = self.runs.front().map_or(0, |next| next.after);
                self.first += Duration::from_nanos(after.into());
            }
            if taken > 0 || max == 0 {
                return Some((taken, born));
            }
        }
    }

    /// True without data.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secs(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn data_of_one_time_is_one_run() {
        let mut times = WriteTimes::default();
        times.push(100, secs(1));
        times.push(50, secs(1));
        times.push(10, secs(2));
        assert_eq!(times.runs.len(), 2);
        assert_eq!(times.take(120), Some((120, secs(1))));
        assert_eq!(times.take(120), Some((30, secs(1))));
        assert_eq!(times.take(120), Some((10, secs(2))));
        assert_eq!(times.take(120), None);
    }

    #[test]
    fn lengths_and_pauses_may_exceed_32_bits() {
        let mut times = WriteTimes::default();
        let len = 3 * u64::from(u32::MAX) + 5;
        times.push(1, secs(0));
        times.push(len, secs(100_000));
        assert_eq!(times.take(u64::MAX), Some((1, secs(0))));
        let mut taken = 0;
        while let Some((part, born)) = times.take(u64::MAX) {
            assert_eq!(born, secs(100_000));
            taken += part;
        }
        assert_eq!((taken, times.is_empty()), (len, true));
    }

    #[test]
    #[should_panic(expected = "precedes data of")]
    fn earlier_times_are_refused() {
        let mut times = WriteTimes::default();
        times.push(1, secs(2));
        times.push(1, secs(1));
    }

    proptest! {
        #[test]
        fn bytes_keep_their_times(
            steps in prop::collection::vec((any::<bool>(), 1_u64..9, prop_oneof![0_u64..3, 0..20_000_000_000_u64]), 0..300)
        ) {
            let (mut times, mut model, mut now) = (WriteTimes::default(), VecDeque::new(), Time::ZERO);
            for (is_write, count, pause) in steps {
                if is_write {
                    now += Duration::from_nanos(pause);
                    times.push(count, now);
                    model.extend((0..count).map(|_| now));
                } else if let Some((taken, born)) = times.take(count) {
                    prop_assert!((1..=count).contains(&taken));
                    for _ in 0..taken {
                        prop_assert_eq!(model.pop_front(), Some(born));
                    }
                } else {
                    prop_assert!(model.is_empty());
                }
            }
        }
    }
}
