//! Compares the delivery of a flow after an outage with its delivery before: whether and when it is as fast again.

use anabranch_base::time::{Duration, Time};

/// Deliveries are counted in steps of this length.
const STEP_LENGTH: Duration = Duration::from_millis(100);
/// Steps of a span. Rates are compared over spans that begin one step apart.
const SPAN_STEPS: usize = 5;
/// Successive spans that must be fast enough: one more than the spans that contain a single step.
const RECOVERY_SPANS: usize = SPAN_STEPS + 1;
/// Share of the earlier mean at which a span is fast enough ...
const RECOVERY_SHARE: f64 = 0.9;
/// ... or this quantile of the earlier spans, if that is less: an uneven flow does not have to become even.
const USUAL_QUANTILE: f64 = 0.05;
/// Steps at the end of the run whose deliveries are compared with those before the outage.
const LAST_STEPS: usize = 30;

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
    /// Bytes of each step.
    steps: Vec<u64>,
}

impl Pace {
    /// Measures a run with an outage; deliveries from `since` on count.
    pub const fn new(outage: Outage, since: Time) -> Self {
        Self { outage, since, steps: Vec::new() }
    }

    /// Adds delivered bytes.
    pub fn add(&mut self, now: Time, bytes: u64) {
        let at = step(now);
        if at >= self.steps.len() {
            self.steps.resize(at + 1, 0);
        }
        self.steps[at] += bytes;
    }

    /// Time from the end of the outage to the first of six successive spans that are fast enough. `None` if there are
    /// none until the end, or the flow delivered nothing before.
    ///
    /// Each step counts up to the earlier mean only, so that data held back by the outage adds nothing.
    pub fn recovery(&self, until: Time) -> Option<Duration> {
        let mean = self.before()?;
        let enough = self.usual(mean).unwrap_or(f64::INFINITY).min(RECOVERY_SHARE * mean * SPAN_STEPS as f64);
        let first = self.up();
        let last = step(until).checked_sub(SPAN_STEPS + RECOVERY_SPANS - 1)?;
        let lasts = |&at: &usize| (at..at + RECOVERY_SPANS).all(|at| self.counted(at, mean) >= enough);
        let at = (first..=last).find(lasts)?;
        Some(STEP_LENGTH.saturating_mul((at - first) as u64))
    }

    /// Bytes delivered in the last three seconds, relative to the bytes delivered in an equal time before the
    /// outage.
    pub fn share(&self, until: Time) -> Option<f64> {
        let end = step(until);
        let start = end.checked_sub(LAST_STEPS).filter(|&start| start >= self.up())?;
        Some(self.delivered(start, end) as f64 / (self.before()? * LAST_STEPS as f64))
    }

    /// A low quantile of the spans before the outage, linear between two of them; `None` if none is before it.
    fn usual(&self, mean: f64) -> Option<f64> {
        let last = step(self.outage.down).checked_sub(SPAN_STEPS)?;
        let mut counts: Vec<f64> = (step(self.since)..=last).map(|at| self.counted(at, mean)).collect();
        counts.sort_by(f64::total_cmp);
        let place = USUAL_QUANTILE * counts.len().checked_sub(1)? as f64;
        let below = counts[place as usize];
        let above = counts.get(place as usize + 1).copied().unwrap_or(below);
        Some(below + (above - below) * place.fract())
    }

    /// Bytes of the span that begins at a step, of each step up to the earlier mean.
    fn counted(&self, at: usize, mean: f64) -> f64 {
        let steps = self.steps.iter().skip(at).take(SPAN_STEPS);
        steps.map(|&bytes| mean.min(bytes as f64)).sum()
    }

    /// Bytes a step, before the outage.
    fn before(&self) -> Option<f64> {
        let (since, down) = (step(self.since), step(self.outage.down));
        let bytes = self.delivered(since, down);
        (since < down && bytes > 0).then(|| bytes as f64 / (down - since) as f64)
    }

    /// The first step that is entirely after the outage.
    const fn up(&self) -> usize {
        self.outage.up.as_nanos().div_ceil(STEP_LENGTH.as_nanos()) as usize
    }

    /// Bytes in some steps.
    fn delivered(&self, from: usize, to: usize) -> u64 {
        let to = to.min(self.steps.len());
        self.steps[from.min(to)..to].iter().sum()
    }
}

/// The step of a time.
const fn step(at: Time) -> usize {
    (at.as_nanos() / STEP_LENGTH.as_nanos()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    /// A hundred bytes per step, `outage` bytes from 2 s to 5 s, then a hundred again from `back` on, until 15 s.
    fn pace(outage: u64, back: f64) -> Pace {
        let mut pace = Pace::new(Outage { down: at(2.0), up: at(5.0) }, at(1.0));
        for step in 0..150 {
            let now = at(f64::from(step) / 10.0 + 0.05);
            let down = (20..50).contains(&step) || now < at(back) && step >= 50;
            pace.add(now, if down { outage } else { 100 });
        }
        pace
    }

    #[test]
    fn recovery_begins_with_six_fast_spans() {
        // A span of five steps is fast from 450 of 500 bytes on: after an outage of 50 bytes per step, one step of 50 and
        // four of 100 are enough.
        assert_eq!(pace(0, 9.0).recovery(at(15.0)), Some(Duration::from_secs(4)));
        assert_eq!(pace(50, 9.0).recovery(at(15.0)), Some(Duration::from_millis(3900)));
        assert_eq!(pace(95, 9.0).recovery(at(15.0)), Some(Duration::ZERO), "the flow was never much slower");
        assert_eq!(pace(0, 14.0).recovery(at(15.0)), Some(Duration::from_secs(9)));
        assert_eq!(pace(0, 14.1).recovery(at(15.0)), None, "nine steps hold five spans");
        assert_eq!(pace(0, 12.0).share(at(15.0)), Some(1.0));
        assert_eq!(pace(50, 13.5).share(at(15.0)), Some(0.75));
    }

    #[test]
    fn released_backlog_adds_nothing() {
        let mut pace = pace(30, 9.0);
        pace.add(at(5.05), 100_000);
        pace.add(at(6.0), 1_500);
        assert_eq!(pace.recovery(at(15.0)), Some(Duration::from_secs(4)));
        assert_eq!(pace.recovery(at(8.9)), None);
    }

    /// Steady 100 bytes a step until the outage of 2 s to 5 s; then, from 5 s on, runs of steps with these bytes, and 100
    /// bytes until 15 s. A span is fast from 450 counted bytes on.
    fn curve(runs: &[(usize, u64)]) -> Option<f64> {
        let mut pace = Pace::new(Outage { down: at(2.0), up: at(5.0) }, at(1.0));
        let after = runs.iter().flat_map(|&(steps, bytes)| core::iter::repeat_n(bytes, steps));
        let after = after.chain(core::iter::repeat(100)).take(100);
        for (step, bytes) in core::iter::repeat_n(100, 20).chain([0; 30]).chain(after).enumerate() {
            pace.add(at(step as f64 / 10.0 + 0.05), bytes);
        }
        pace.recovery(at(15.0)).map(Duration::as_secs_f64)
    }

    #[test]
    fn recovery_of_curves_matches_hand_calculation() {
        for (runs, wanted) in [
            // The first step is fast, and so are all others.
            (vec![], Some(0.0)),
            (vec![(10, 0)], Some(1.0)),
            (vec![(100, 0)], None),
            // 90 bytes a step are exactly 450 a span; 89 are 445.
            (vec![(100, 90)], Some(0.0)),
            (vec![(100, 89)], None),
            // Four steps of 89 and one of 94 make 450, so the span at step 16 is the first.
            (vec![(20, 89), (80, 94)], Some(1.6)),
            // A step of 50 may be in a fast span, at its begin or its end; one of 49 may not.
            (vec![(1, 50)], Some(0.0)),
            (vec![(1, 49)], Some(0.1)),
            // Two steps of 50 in a span of 5: the span has 400; from the second step on it has 450.
            (vec![(2, 50)], Some(0.1)),
            (vec![(1, 50), (3, 100), (1, 50)], Some(0.1)),
            (vec![(1, 50), (4, 100), (1, 50)], Some(0.0)),
            // A gap of one step breaks six successive spans: those before are too few with 9 fast steps, and enough
            // with 10.
            (vec![(9, 100), (1, 0)], Some(1.0)),
            (vec![(10, 100), (1, 0)], Some(0.0)),
            // Ten fast steps after two slow ones.
            (vec![(2, 0), (10, 100), (1, 0)], Some(0.2)),
            // A released backlog of 3,000 bytes counts as 100 bytes.
            (vec![(1, 3000), (19, 0)], Some(2.0)),
            (vec![(5, 0), (1, 3000), (4, 0)], Some(1.0)),
            // A rise by 10 bytes a step: steps 7 to 11 have 70, 80, 90, 100 and 100 bytes, 440; the next span has 470.
            (
                vec![(1, 0), (1, 10), (1, 20), (1, 30), (1, 40), (1, 50), (1, 60), (1, 70), (1, 80), (1, 90)],
                Some(0.8),
            ),
            // More than the earlier mean helps no other step: 100 counted of 200, and 0, by turns.
            (vec![(1, 200), (1, 0), (1, 200), (1, 0), (1, 200), (1, 0)], Some(0.6)),
            // Step 90 is the last that begins 10 steps: the run ends at step 150.
            (vec![(90, 0)], Some(9.0)),
            (vec![(91, 0)], None),
        ] {
            assert_eq!(curve(&runs), wanted, "{runs:?}");
        }
    }

    #[test]
    fn uneven_flow_recovers_to_its_usual_unevenness() {
        let mut pace = Pace::new(Outage { down: at(5.0), up: at(7.0) }, at(1.0));
        for step in (0..50).chain(90..150) {
            // 250 and 750 bytes a span by turns, 500 in the mean.
            pace.add(at(f64::from(step) / 10.0 + 0.05), if step / 5 % 2 == 0 { 50 } else { 150 });
        }
        assert_eq!(pace.recovery(at(15.0)), Some(Duration::from_secs(2)));
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
