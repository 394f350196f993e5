//! Time for which data behind a gap waits at the receiver, by the path that carries the missing data.

use anabranch_base::time::{Duration, Time};

/// A stopwatch for each path, of which at most one runs: that of the path that carries the first missing data.
///
/// The stopwatch runs at the sender, from the acknowledgement that shows the gap to the one that shows its
/// end. The delay from the receiver to the sender is the same for both, so the measured time equals the time
/// at the receiver.
#[derive(Clone, Debug, Default)]
pub struct GapClock {
    current: Option<Gap>,
    done: Vec<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u64,
    path: Option<usize>,
    since: Time,
}

impl GapClock {
    /// True if no gap is open. The caller need then not call [`note`](Self::note) while no data is missing.
    #[inline]
    pub const fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    /// True if the number of the first missing data is `first`.
    #[inline]
    pub fn is_at(&self, first: Option<u64>) -> bool {
        self.current.map(|gap| gap.first) == first
    }

    /// Records the number `first` of the first missing data while later data has arrived; `None` if there is no gap.
    /// `path` returns the path that carries the missing data; it is called once for each number.
    #[inline]
    pub fn note(&mut self, now: Time, first: Option<u64>, path: impl FnOnce(u64) -> Option<usize>) {
        if !self.is_at(first) {
            self.change(now, first.map(|first| (first, path(first))));
        }
    }

    #[cold]
    #[inline(never)]
    fn change(&mut self, now: Time, next: Option<(u64, Option<usize>)>) {
        if let Some((path, span)) = self.current.and_then(|gap| gap.span(now)) {
            if self.done.len() <= path {
                self.done.resize(path + 1, Duration::ZERO);
            }
            self.done[path] += span;
        }
        self.current = next.map(|(first, path)| Gap { first, path, since: now });
    }

    /// Times of the first `count` paths up to `now`.
    pub fn up_to(&self, now: Time, count: usize) -> Vec<Duration> {
        let mut times = self.done.clone();
        times.resize(count, Duration::ZERO);
        if let Some((path, span)) = self.current.and_then(|gap| gap.span(now))
            && let Some(time) = times.get_mut(path)
        {
            *time += span;
        }
        times
    }
}

impl Gap {
    fn span(self, now: Time) -> Option<(usize, Duration)> {
        Some((self.path?, now.since(self.since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_time_counts_for_path_of_missing_data() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let ms = Duration::from_millis;
        let mut clock = GapClock::default();
        clock.note(at(0), None, |_| unreachable!("no gap"));
        clock.note(at(10), Some(100), |_| Some(1));
        // The time counts for the path that carried the missing data when the gap opened: a later copy on another
        // path changes nothing.
        clock.note(at(15), Some(100), |_| Some(0));
        clock.note(at(30), Some(200), |_| Some(0));
        clock.note(at(35), Some(300), |_| None);
        clock.note(at(50), Some(400), |_| Some(1));
        assert_eq!(clock.up_to(at(53), 3), [ms(5), ms(23), ms(0)]);
        clock.note(at(60), None, |_| None);
        assert_eq!(clock.up_to(at(90), 2), [ms(5), ms(30)]);
    }
}
