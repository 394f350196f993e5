//! Recordings of a value over time, which repeat.

use anabranch_base::time::{Duration, Time};
use std::sync::Arc;

/// Values over time. A value holds from its time to that of the next point; the time of the last point is the
/// period with which the recording repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    file: String,
    points: Arc<[(Duration, f64)]>,
}

impl Series {
    /// A recording from `file`, a name for messages and reports.
    ///
    /// # Panics
    ///
    /// If there are fewer than two points, the first is not at zero, or the times do not ascend. The scenario's
    /// parser rejects such files.
    pub fn new(file: impl Into<String>, points: Vec<(Duration, f64)>) -> Self {
        assert!(points.len() >= 2 && points[0].0 == Duration::ZERO, "a recording begins at zero and ends");
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "times of a recording ascend");
        Self { file: file.into(), points: points.into() }
    }

    /// Name of the file that contains the series.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// All points. The last one is the end of the period.
    pub fn points(&self) -> &[(Duration, f64)] {
        &self.points
    }

    /// The values that hold for some time: all except the last.
    pub fn steps(&self) -> impl Iterator<Item = f64> + '_ {
        self.points[..self.points.len() - 1].iter().map(|&(_, value)| value)
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.points[self.points.len() - 1].0
    }

    /// The value that holds at a time.
    pub fn step_at(&self, at: Time) -> f64 {
        let (index, _) = self.place(at);
        self.points[index].1
    }

    /// The value at a time on the straight line between the points before and after.
    pub fn linear_at(&self, at: Time) -> f64 {
        let (index, within) = self.place(at);
        let ((begin, from), (end, to)) = (self.points[index], self.points[index + 1]);
        let passed = within.saturating_sub(begin).as_nanos() as f64;
        from + (to - from) * passed / end.saturating_sub(begin).as_nanos() as f64
    }

    /// The index of the last point before or at a time, and that time within the period.
    fn place(&self, at: Time) -> (usize, Duration) {
        let within = Duration::from_nanos(at.as_nanos() % self.period().as_nanos());
        (self.points.partition_point(|&(begin, _)| begin <= within) - 1, within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_equal_steps_and_lines_computed_by_hand() {
        let millis = Duration::from_millis;
        let series = Series::new("x.csv", vec![(millis(0), 10.0), (millis(4), 30.0), (millis(6), 20.0)]);
        assert_eq!((series.period(), series.steps().collect::<Vec<_>>()), (millis(6), vec![10.0, 30.0]));
        let at = |us: u64| Time::ZERO + Duration::from_micros(us);
        for (us, step, linear) in
            [(0, 10.0, 10.0), (1000, 10.0, 15.0), (4000, 30.0, 30.0), (5000, 30.0, 25.0), (6000, 10.0, 10.0)]
        {
            assert_eq!((series.step_at(at(us)), series.linear_at(at(us))), (step, linear), "{us} us");
            // The recording repeats.
            assert_eq!((series.step_at(at(us + 60_000)), series.linear_at(at(us + 60_000))), (step, linear));
        }
    }
}
