//! Payload bytes that the kernel of a sender sends again in the spans after events, from its counters at the beginning and
//! the end of each span.

use anabranch_base::time::{Duration, Time};
use anabranch_scenario::measure::AFTER_EVENT_SPAN;
use std::sync::Arc;

/// Counters of a sender: payload bytes that it has sent, and those of them that it had sent before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentBytes {
    /// All payload bytes.
    pub all: u64,
    /// Those sent again.
    pub repeated: u64,
}

/// Counters at the bounds of the spans after events.
#[derive(Clone, Debug, Default)]
pub struct Repetitions {
    /// Times of the events, ascending.
    events: Arc<[Time]>,
    /// The counters at the beginnings of the spans that have begun.
    begun: Vec<SentBytes>,
    /// The counters at the ends of the spans that have ended.
    ended: Vec<SentBytes>,
}

impl Repetitions {
    /// Measures in the spans after these times.
    pub fn new(events: Arc<[Time]>) -> Self {
        Self { events, begun: Vec::new(), ended: Vec::new() }
    }

    /// True if the counters now are those of a bound of a span.
    pub fn is_due(&self, now: Time) -> bool {
        let is_past = |event: Option<&Time>, later| event.is_some_and(|&event| event + later <= now);
        is_past(self.events.get(self.begun.len()), Duration::ZERO)
            || is_past(self.events.get(self.ended.len()), AFTER_EVENT_SPAN)
    }

    /// Notes the present counters for all bounds up to now.
    pub fn note(&mut self, now: Time, sent: SentBytes) {
        let until = |later| self.events.partition_point(|&event| event + later <= now);
        let (begun, ended) = (until(Duration::ZERO), until(AFTER_EVENT_SPAN));
        self.begun.resize(begun.max(self.begun.len()), sent);
        self.ended.resize(ended.max(self.ended.len()), sent);
    }

    /// The share of repeated bytes in the span after the event with this index; `None` if the span has not ended or nothing
    /// was sent.
    pub fn share(&self, event: usize) -> Option<f64> {
        let (before, after) = (*self.begun.get(event)?, *self.ended.get(event)?);
        let sent = after.all.checked_sub(before.all).filter(|&sent| sent > 0)?;
        let repeated = after.repeated.saturating_sub(before.repeated);
        Some(repeated.min(sent) as f64 / sent as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn measured(events: &[u64], counters: impl Fn(u64) -> SentBytes) -> Repetitions {
        let events: Vec<_> = events.iter().map(|&seconds| at(seconds)).collect();
        let mut measured = Repetitions::new(events.into());
        for second in 0..20 {
            if measured.is_due(at(second)) {
                measured.note(at(second), counters(second));
            }
        }
        measured
    }

    #[test]
    fn each_event_has_the_share_of_the_span_after_it() {
        // 1000 bytes a second; from 3 s to 5 s, half of them are repeated.
        let counters = |second: u64| {
            let repeated = 500 * (second.clamp(3, 5) - 3);
            SentBytes { all: 1_000 * second, repeated }
        };
        let measured = measured(&[1, 4, 4, 12, 17], counters);
        let shares: Vec<_> = (0..6).map(|event| measured.share(event)).collect();
        // 1 s to 6 s: 1000 of 5000; 4 s to 9 s: 500 of 5000. The last span has not ended.
        assert_eq!(shares, [Some(0.2), Some(0.1), Some(0.1), Some(0.0), None, None]);
    }

    #[test]
    fn span_without_sent_bytes_has_no_share() {
        let measured = measured(&[1, 5], |_| SentBytes { all: 5_000, repeated: 100 });
        assert_eq!([0, 1].map(|event| measured.share(event)), [None; 2]);
    }
}
