//! Delivery of a flow after events of the scenario: how long it pauses, and how much arrives.

use super::pace::{Outage, Pace};
use anabranch_base::time::{Duration, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Length of the span after each event whose deliveries are counted.
pub const AFTER_EVENT_SPAN: Duration = Duration::from_secs(5);

/// Maximum number of events of a run after which deliveries are counted.
pub const MAX_COUNTED_EVENTS: usize = 1_000;

/// The deliveries of a flow after events.
#[derive(Clone, Debug)]
pub struct AfterEvents {
    /// Times of the events, ascending, at least one.
    events: Arc<[Time]>,
    /// Delivered bytes until now.
    delivered: u64,
    /// The last delivery.
    last: Time,
    /// Longest time without delivery, after the first event.
    longest: Duration,
    /// Number of spans that have begun.
    begun: usize,
    /// Delivered bytes at the beginning of each span that has not ended.
    open: VecDeque<u64>,
    /// Index of the event after which the fewest bytes arrived, with their number.
    least: Option<(usize, u64)>,
}

impl AfterEvents {
    /// Measures after these times, ascending; `None` without any.
    pub fn new(events: Arc<[Time]>) -> Option<Self> {
        (!events.is_empty()).then(|| Self {
            events,
            delivered: 0,
            last: Time::ZERO,
            longest: Duration::ZERO,
            begun: 0,
            open: VecDeque::new(),
            least: None,
        })
    }

    /// Adds delivered bytes.
    pub fn add(&mut self, now: Time, bytes: u64) {
        self.advance(now);
        self.longest = self.longest.max(self.pause(now));
        self.last = now;
        self.delivered += bytes;
    }

    /// Time without delivery until now, after the first event.
    fn pause(&self, now: Time) -> Duration {
        now.since(self.last.max(self.events[0]))
    }

    /// Begins the spans of events up to now, and ends the spans that are over. The deliveries at this time do not count
    /// yet.
    fn advance(&mut self, now: Time) {
        while self.events.get(self.begun).is_some_and(|&at| at <= now) {
            self.open.push_back(self.delivered);
            self.begun += 1;
        }
        while let Some(&before) = self.open.front() {
            let index = self.begun - self.open.len();
            if self.events[index] + AFTER_EVENT_SPAN > now {
                break;
            }
            self.open.pop_front();
            let bytes = self.delivered - before;
            if self.least.is_none_or(|(_, least)| bytes < least) {
                self.least = Some((index, bytes));
            }
        }
    }

    /// The longest time without delivery after the first event, until the end of the flow's data at `until`; `None` if
    /// that is before the event.
    pub fn gap(&self, until: Time) -> Option<Duration> {
        (until > self.events[0]).then(|| self.longest.max(self.pause(until)))
    }

    /// The index of the event after which the fewest bytes were delivered within [`AFTER_EVENT_SPAN`], and
    /// the number of these bytes. Spans that end after `end` do not count.
    pub fn least(&self, end: Time) -> Option<(usize, u64)> {
        let mut ended = self.clone();
        ended.advance(end);
        ended.least
    }
}

/// Deliveries of a flow over time, as far as the scenario has events.
#[derive(Clone, Debug)]
pub struct Deliveries {
    /// Around an outage.
    pub pace: Option<Pace>,
    /// After events.
    pub after_events: Option<AfterEvents>,
}

impl Deliveries {
    /// Measures what the events of a run require; `None` without events. Rates count from `since` on.
    pub fn new(outage: Option<Outage>, events: Arc<[Time]>, since: Time) -> Option<Self> {
        let pace = outage.map(|outage| Pace::new(outage, since));
        let after_events = AfterEvents::new(events);
        (pace.is_some() || after_events.is_some()).then_some(Self { pace, after_events })
    }

    /// Adds delivered bytes.
    pub fn add(&mut self, now: Time, bytes: u64) {
        if let Some(pace) = &mut self.pace {
            pace.add(now, bytes);
        }
        if let Some(after_events) = &mut self.after_events {
            after_events.add(now, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    /// Ten bytes a second from 0.5 s on, except from 3 s to `back`, and events at these times.
    fn measured(events: &[f64], back: f64) -> AfterEvents {
        let events: Vec<_> = events.iter().map(|&seconds| at(seconds)).collect();
        let mut after = AfterEvents::new(events.into()).expect("there are events");
        for step in 0..20 {
            let now = f64::from(step) + 0.5;
            if !(3.0..back).contains(&now) {
                after.add(at(now), 10);
            }
        }
        after
    }

    #[test]
    fn gap_begins_with_first_event() {
        assert_eq!(measured(&[3.25], 5.0).gap(at(20.0)), Some(Duration::from_millis(2250)));
        assert_eq!(measured(&[2.0], 5.0).gap(at(20.0)), Some(Duration::from_secs(3)));
        assert_eq!(measured(&[19.75], 5.0).gap(at(20.0)), Some(Duration::from_millis(250)));
        assert_eq!(
            measured(&[2.0], 50.0).gap(at(20.0)),
            Some(Duration::from_millis(17_500)),
            "until the end"
        );
        assert_eq!(measured(&[20.0], 5.0).gap(at(20.0)), None);
    }

    #[test]
    fn event_with_fewest_bytes_counts() {
        assert_eq!(measured(&[3.0, 9.0], 5.0).least(at(20.0)), Some((0, 30)));
        assert_eq!(measured(&[1.0, 3.0, 14.0], 50.0).least(at(20.0)), Some((1, 0)));
        assert_eq!(
            measured(&[1.0, 10.0, 16.0], 4.0).least(at(20.0)),
            Some((0, 40)),
            "the last span is not over"
        );
        assert_eq!(measured(&[16.0], 4.0).least(at(20.0)), None);
    }

    #[test]
    fn run_without_events_has_no_measured_values() {
        assert!(Deliveries::new(None, [].into(), Time::ZERO).is_none());
    }
}
