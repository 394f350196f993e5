//! Times at which a flow is on, and the time of an application that stands still while its flow is off.

use anabranch_base::time::{Duration, Time};

/// Maximum number of switches of a flow.
const MAX_SWITCHES: usize = 10_000;

/// The times at which a flow is on. It is off at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Times at which the flow turns on and off, in order. The last span may have no end.
    spans: Vec<[Time; 2]>,
    /// After this time the spans repeat.
    period: Option<Duration>,
}

impl Schedule {
    /// Turns on at the first of these times, off at the second, and so on; with `repeats`, again after the last one.
    ///
    /// # Errors
    ///
    /// If the times do not ascend, or are too many, or if a repetition ends with the flow on; the text is a sentence.
    pub fn new(times: &[Time], repeats: bool) -> Result<Self, String> {
        if times.is_empty() || times.len() > MAX_SWITCHES {
            return Err(format!("a flow turns on and off at 1 to {MAX_SWITCHES} times"));
        }
        if times.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err("the times at which a flow turns on and off must ascend".to_owned());
        }
        if repeats && !times.len().is_multiple_of(2) {
            return Err("repeated times must be even in number, so that the flow ends off".to_owned());
        }
        let spans = times.chunks(2).map(|pair| [pair[0], pair.get(1).copied().unwrap_or(Time::MAX)]);
        let period = times.last().filter(|_| repeats).map(|last| last.since(Time::ZERO));
        Ok(Self { spans: spans.collect(), period })
    }

    /// The number of whole periods before a time, and the time within its period.
    fn within_period(&self, now: Time) -> (u64, Time) {
        match self.period {
            None => (0, now),
            Some(period) => {
                let (now, period) = (now.as_nanos(), period.as_nanos());
                (now / period, Time::from_nanos(now % period))
            }
        }
    }

    /// Start of the period that follows this number of whole periods.
    fn at_period(&self, periods: u64) -> Duration {
        self.period.map_or(Duration::ZERO, |period| period.saturating_mul(periods))
    }

    /// The time within a period at which the flow has been on.
    fn active_within(&self, now: Time) -> Duration {
        let spans = self.spans.iter().map(|&[on, off]| now.min(off).since(on));
        spans.fold(Duration::ZERO, |total, span| total + span)
    }

    /// True if the flow is on.
    pub fn is_on(&self, now: Time) -> bool {
        let (_, within) = self.within_period(now);
        self.spans.iter().any(|&[on, off]| (on..off).contains(&within))
    }

    /// The first time from `now` on at which the flow is on; [`Time::MAX`] if there is none.
    pub fn next_on(&self, now: Time) -> Time {
        if self.is_on(now) {
            return now;
        }
        let (periods, within) = self.within_period(now);
        let begins = |periods: u64, on: Time| on + self.at_period(periods);
        let next = self.spans.iter().map(|&[on, _]| on).find(|&on| on > within);
        match next {
            Some(on) => begins(periods, on),
            None if self.period.is_some() => begins(periods + 1, self.spans[0][0]),
            None => Time::MAX,
        }
    }

    /// Duration for which the flow was on before `now`, as the time of its application.
    pub fn active(&self, now: Time) -> Time {
        let (periods, within) = self.within_period(now);
        let whole = self.period.map_or(Duration::ZERO, |period| self.active_within(Time::ZERO + period));
        Time::ZERO + whole.saturating_mul(periods) + self.active_within(within)
    }

    /// Time of the run at which the application's time is `active`; [`Time::MAX`] if there is none.
    pub fn real(&self, active: Time) -> Time {
        if active == Time::MAX {
            return active;
        }
        let mut left = active.since(Time::ZERO);
        let mut begin = Duration::ZERO;
        if let Some(period) = self.period {
            let whole = self.active_within(Time::ZERO + period).as_nanos();
            begin = self.at_period(left.as_nanos() / whole);
            left = Duration::from_nanos(left.as_nanos() % whole);
        }
        for &[on, off] in &self.spans {
            let span = off.since(on);
            if left < span {
                return on + begin + left;
            }
            left = left.saturating_sub(span);
        }
        Time::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn flow_is_on_between_its_times() {
        let schedule = Schedule::new(&[s(2), s(5), s(8)], false).unwrap();
        assert_eq!(
            [0, 2, 4, 5, 7, 8, 900].map(|at| schedule.is_on(s(at))),
            [false, true, true, false, false, true, true]
        );
        assert_eq!([0, 2, 4, 5, 8, 10].map(|at| schedule.active(s(at))), [0, 0, 2, 3, 3, 5].map(s));
        assert_eq!([0, 2, 3, 5].map(|at| schedule.real(s(at))), [2, 4, 8, 10].map(s));
        assert_eq!([1, 3, 6].map(|at| schedule.next_on(s(at))), [2, 3, 8].map(s));
        let once = Schedule::new(&[s(2), s(5)], false).unwrap();
        assert_eq!((once.next_on(s(5)), once.real(s(3))), (Time::MAX, Time::MAX));
    }

    #[test]
    fn repeated_times_begin_after_the_last() {
        // The flow is on from 1 to 3 and from 4 to 6, then from 7 to 9, and so on.
        let schedule = Schedule::new(&[s(1), s(3), s(4), s(6)], true).unwrap();
        assert_eq!(
            [0, 1, 3, 5, 6, 7, 9, 10].map(|at| schedule.is_on(s(at))),
            [false, true, false, true, false, true, false, true]
        );
        assert_eq!([3, 6, 8].map(|at| schedule.active(s(at))), [2, 4, 5].map(s));
        assert_eq!([1, 2, 4, 5].map(|at| schedule.real(s(at))), [2, 4, 7, 8].map(s));
        assert_eq!(schedule.next_on(s(6)), s(7));
        assert_eq!(schedule.real(Time::MAX), Time::MAX);
    }

    #[test]
    fn times_that_do_not_ascend_are_refused() {
        assert!(Schedule::new(&[], false).is_err());
        assert!(Schedule::new(&[s(2), s(2)], false).unwrap_err().contains("must ascend"));
        assert!(Schedule::new(&[s(1), s(2), s(3)], true).unwrap_err().contains("even in number"));
    }
}
