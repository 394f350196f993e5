//! Delivery of a flow around an outage: whether, and when, it is as fast again as before.

use anabranch_base::time::{Duration, Time};

/// Deliveries are counted in spans of this length.
const SPAN: Duration = Duration::from_millis(100);

/// A flow has recovered once it delivers during this number of spans ...
const RECOVERY_SPANS: usize = 30;
/// ... at least this share of its delivery before. Data held back by an outage arrives at once, at a rate
/// that no path has; over this time it does not count as recovery.
const RECOVERY_SHARE: f64 = 0.9;

/// The time of the first link failure in a run, and of the last link recovery after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The first link goes down.
    pub down: Time,
    /// All links are up again.
    pub up: Time,
}

/// The deliveries of a flow over time.
#[derive(Clone, Debug)]
pub struct Pace {
    outage: Outage,
    since: Time,
    spans: Vec<u64>,
}

impl Pace {
    /// Measures a run with an outage; deliveries from `since` on count.
    pub const fn new(outage: Outage, since: Time) -> Self {
        Self { outage, since, spans: Vec::new() }
    }

    /// Adds delivered bytes.
    pub fn add(&mut self, now: Time, bytes: u64) {
        let at = span(now);
        if at >= self.spans.len() {
            self.spans.resize(at + 1, 0);
        }
        self.spans[at] += bytes;
    }

    /// Time from the end of the outage to the first three seconds in which the flow delivers at least nine
    /// tenths of its delivery in that time before. `None` if there are none until the end, or it delivered
    /// nothing before.
    pub fn recovery(&self, until: Time) -> Option<Duration> {
        let enough = self.before()? * RECOVERY_SHARE * RECOVERY_SPANS as f64;
        let (first, end) = (self.up(), span(until));
        let at = (first..=end.checked_sub(RECOVERY_SPANS)?)
            .find(|&at| self.delivered(at, at + RECOVERY_SPANS) as f64 >= enough)?;
        Some(SPAN.saturating_mul((at - first) as u64))
    }

    /// Delivery of the flow in the last three seconds, relative to that in the same time before the outage.
    pub fn share(&self, until: Time) -> Option<f64> {
        let end = span(until);
        let start = end.checked_sub(RECOVERY_SPANS).filter(|&start| start >= self.up())?;
        Some(self.delivered(start, end) as f64 / (self.before()? * RECOVERY_SPANS as f64))
    }

    /// Bytes a span, before the outage.
    fn before(&self) -> Option<f64> {
        let (since, down) = (span(self.since), span(self.outage.down));
        let bytes = self.delivered(since, down);
        (since < down && bytes > 0).then(|| bytes as f64 / (down - since) as f64)
    }

    /// The first span that is entirely after the outage.
    const fn up(&self) -> usize {
        self.outage.up.as_nanos().div_ceil(SPAN.as_nanos()) as usize
    }

    /// Bytes in some spans.
    fn delivered(&self, from: usize, to: usize) -> u64 {
        let to = to.min(self.spans.len());
        self.spans[from.min(to)..to].iter().sum()
    }
}

/// The span of a time.
const fn span(at: Time) -> usize {
    (at.as_nanos() / SPAN.as_nanos()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    /// A hundred bytes per span, `outage` bytes from 2 s to 5 s, then a hundred again from `back` on, until
    /// 15 s.
    fn pace(outage: u64, back: f64) -> Pace {
        let mut pace = Pace::new(Outage { down: at(2.0), up: at(5.0) }, at(1.0));
        for span in 0..150 {
            let now = at(f64::from(span) / 10.0 + 0.05);
            let down = (20..50).contains(&span) || now < at(back) && span >= 50;
            pace.add(now, if down { outage } else { 100 });
        }
        pace
    }

    #[test]
    fn recovery_begins_with_three_fast_seconds() {
        // 2,700 bytes in 30 spans are required: 27 spans of 100, or with 40 per span meanwhile 25 of 100 and
        // 5 of 40.
        assert_eq!(pace(0, 9.0).recovery(at(15.0)), Some(Duration::from_millis(3700)));
        assert_eq!(pace(40, 9.0).recovery(at(15.0)), Some(Duration::from_millis(3500)));
        assert_eq!(pace(95, 9.0).recovery(at(15.0)), Some(Duration::ZERO), "it was never much slower");
        assert_eq!(pace(0, 12.5).recovery(at(15.0)), None, "2.5 s are not enough");
        assert_eq!(pace(0, 12.0).share(at(15.0)), Some(1.0));
        assert_eq!(pace(50, 13.5).share(at(15.0)), Some(0.75));
    }

    #[test]
    fn burst_of_delayed_data_is_no_recovery() {
        let mut pace = pace(30, 9.0);
        pace.add(at(6.0), 1_500);
        // 30 spans of 30 and the 1,500 are 2,400.
        assert_eq!(pace.recovery(at(8.9)), None);
    }

    #[test]
    fn recovery_requires_earlier_delivery() {
        let outage = Outage { down: at(1.0), up: at(2.0) };
        let mut pace = Pace::new(outage, at(1.0));
        pace.add(at(0.5), 100);
        assert_eq!((pace.recovery(at(9.0)), pace.share(at(9.0))), (None, None));
        let mut pace = Pace::new(outage, at(0.0));
        pace.add(at(0.5), 100);
        assert_eq!((pace.recovery(at(4.0)), pace.share(at(4.0))), (None, None), "the run ends too early");
        assert_eq!(pace.share(at(5.0)), Some(0.0));
    }
}
