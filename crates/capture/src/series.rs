//! Values over time with bounded memory.

/// Maximum number of intervals; when they are full, the length of all intervals doubles.
const MAX_BUCKETS: usize = 512;
const FIRST_WIDTH_NS: u64 = 20_000_000;
/// Shortest span over which a rate is computed.
const MIN_RATE_SPAN_NS: u64 = 200_000_000;

/// Bytes by interval of time, from the first interval on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    start_ns: u64,
    width_ns: u64,
    bytes: Vec<u64>,
}

impl Series {
    /// Adds bytes; times before the first interval count as the first.
    pub fn add(&mut self, now_ns: u64, bytes: u64) {
        if self.width_ns == 0 {
            (self.start_ns, self.width_ns) = (now_ns, FIRST_WIDTH_NS);
        }
        let since = now_ns.saturating_sub(self.start_ns);
        while (since / self.width_ns) as usize >= MAX_BUCKETS {
            self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.width_ns = self.width_ns.saturating_mul(2);
        }
        let at = (since / self.width_ns) as usize;
        if self.bytes.len() <= at {
            self.bytes.resize(at + 1, 0);
        }
        self.bytes[at] += bytes;
    }

    /// The largest rate over at least 0.2 s, bit/s; `None` if the whole series is shorter.
    pub fn largest_bps(&self) -> Option<f64> {
        let each = MIN_RATE_SPAN_NS.checked_div(self.width_ns)?.max(1) as usize;
        let whole = self.bytes.len().checked_sub(1)?;
        let largest = self.bytes[..whole].windows(each).map(|part| part.iter().sum::<u64>()).max()?;
        Some(largest as f64 * 8e9 / (each as f64 * self.width_ns as f64))
    }
}

/// A piece of data that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub at_ns: u64,
    pub subflow: u32,
    pub from: u64,
    pub len: u32,
}

/// Maximum number of pieces of data; at this number, every second one is removed.
const MAX_POINTS: usize = 8_192;

/// Pieces of data over time, thinned out evenly.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    list: Vec<Point>,
    /// The list keeps one of 2^`stride` pieces.
    stride: u32,
    skipped: u32,
}

impl Points {
    /// Adds a piece. `budget` is the number of pieces that all lists together may still keep.
    pub fn add(&mut self, point: Point, budget: &mut usize) {
        if self.skipped < (1 << self.stride) - 1 {
            self.skipped += 1;
            return;
        }
        self.skipped = 0;
        if self.list.len() >= MAX_POINTS || (*budget == 0 && self.list.len() >= 2) {
            let before = self.list.len();
            let mut odd = false;
            self.list.retain(|_| {
                odd = !odd;
                odd
            });
            *budget += before - self.list.len();
            self.stride = (self.stride + 1).min(30);
        }
        if *budget > 0 {
            *budget -= 1;
            self.list.push(point);
        }
    }

    /// The pieces that were kept.
    pub fn list(&self) -> &[Point] {
        &self.list
    }

    /// Number of added pieces that each kept piece represents.
    pub fn step(&self) -> u32 {
        1 << self.stride
    }

    /// Removes all pieces, and returns their number.
    pub fn clear(&mut self) -> usize {
        core::mem::take(&mut self.list).len()
    }
}

/// New and repeated pieces of data over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    pub sent: Points,
    pub repeated: Points,
}

impl Pieces {
    /// Adds a piece within the `budget` of all lists.
    pub fn add(&mut self, point: Point, is_repeated: bool, budget: &mut usize) {
        let list = if is_repeated { &mut self.repeated } else { &mut self.sent };
        list.add(point, budget);
    }

    /// Maximum number of pieces that one kept piece represents.
    pub fn step(&self) -> u32 {
        self.sent.step().max(self.repeated.step())
    }

    /// Removes all pieces, and returns their number.
    pub fn clear(&mut self) -> usize {
        self.sent.clear() + self.repeated.clear()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_keeps_all_bytes_in_few_intervals() {
        let mut series = Series::default();
        for at in 0..100_000_u64 {
            series.add(at * 10_000_000, 100);
        }
        assert!(series.bytes.len() <= MAX_BUCKETS);
        assert_eq!(series.bytes.iter().sum::<u64>(), 10_000_000);
        let largest = series.largest_bps().unwrap();
        assert!((largest - 80_000.0).abs() < 800.0, "{largest}");
    }

    #[test]
    fn distant_times_do_not_loop_endlessly() {
        let mut series = Series::default();
        series.add(5, 1);
        series.add(u64::MAX, 1);
        series.add(0, 1);
        assert_eq!(series.bytes.iter().sum::<u64>(), 3);
    }

    #[test]
    fn points_are_thinned_out_and_within_the_budget() {
        let mut points = Points::default();
        let mut budget = 1_000_000;
        for at in 0..100_000 {
            points.add(Point { at_ns: at, subflow: 0, from: at, len: 1 }, &mut budget);
        }
        assert!(points.list().len() <= MAX_POINTS && points.list().len() >= MAX_POINTS / 4);
        assert_eq!(budget + points.list().len(), 1_000_000);
        assert!(points.list().windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
        let (mut few, mut none) = (Points::default(), 3);
        (0..100).for_each(|at| few.add(Point { at_ns: at, subflow: 0, from: at, len: 1 }, &mut none));
        assert!(few.list().len() <= 3);
    }
}
