//! Bursts and silence.

use super::Sizes;
use super::timing::{Interval, Next};
use crate::model::Bursts;
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_base::units::Rate;
use std::sync::Arc;

/// The bursts of a workload, one after the other.
#[derive(Clone, Debug)]
pub(super) enum Spans {
    /// Bursts with drawn lengths; before the first, at `start`, there is silence.
    Drawn { on: Interval, off: Interval, start: Option<Time> },
    /// Bursts with given times, without the part before the start; the next burst has index `at`.
    Given { periods: Arc<[[Time; 2]]>, at: usize, start: Time },
}

impl Spans {
    /// The bursts from `start` on.
    pub(super) fn new(bursts: &Bursts, start: Time, rng: &Rng) -> Self {
        match bursts {
            Bursts::Drawn { on, off, distribution } => {
                let interval = |mean, name| Interval::new(mean, *distribution, rng.fork(name));
                Self::Drawn { on: interval(*on, "on"), off: interval(*off, "off"), start: Some(start) }
            }
            Bursts::Periods(periods) => {
                let at = periods.partition_point(|[_, end]| *end <= start);
                Self::Given { periods: periods.clone(), at, start }
            }
        }
    }

    /// The burst after the one that ends at `end`; `None` after the last.
    fn next(&mut self, end: Time) -> Option<[Time; 2]> {
        match self {
            Self::Drawn { on, off, start } => {
                let start = start.take().unwrap_or_else(|| end + off.draw());
                Some([start, start + on.draw()])
            }
            Self::Given { periods, at, start } => {
                let &[begin, end] = periods.get(*at)?;
                *at += 1;
                Some([begin.max(*start), end])
            }
        }
    }
}

/// An application that writes in bursts.
#[derive(Clone, Debug)]
pub(super) struct OnOff {
    spans: Spans,
    /// The current or next burst; `None` after the last.
    burst: Option<[Time; 2]>,
    /// The next message of a burst with a rate.
    next: Time,
    rate: Option<Rate>,
    sizes: Sizes,
}

impl OnOff {
    pub(super) fn new(mut spans: Spans, rate: Option<Rate>, sizes: Sizes) -> Self {
        let burst = spans.next(Time::ZERO);
        Self { spans, burst, next: burst.map_or(Time::MAX, |[start, _]| start), rate, sizes }
    }

    pub(super) fn next(&mut self, now: Time) -> Next {
        loop {
            let Some([start, end]) = self.burst else { return Next::End };
            let at = if self.rate.is_some() { self.next } else { now.max(start) };
            if at >= end {
                self.turn(end);
            } else if at > now {
                return Next::At(at);
            } else {
                return self.message();
            }
        }
    }

    fn message(&mut self) -> Next {
        let (len, born) = (self.sizes.draw(), self.rate.map(|_| self.next));
        if let Some(rate) = self.rate {
            self.next += rate.time_to_send(len);
        }
        Next::Message { len, born }
    }

    /// Moves to the next burst. The part of a gap that does not fit into the burst continues in the next one,
    /// so that the long-term rate is the rate within bursts times their share of the time.
    fn turn(&mut self, end: Time) {
        let rest = self.next.since(end);
        self.burst = self.spans.next(end);
        if let Some([start, _]) = self.burst {
            self.next = start + rest;
        }
    }
}
