//! Quantiles of delays in bounded memory: buckets whose width is at most 1/512 of their value, as in
//! `HdrHistogram` (G. Tene).

use anabranch_base::time::Duration;

/// Each octave has 2⁹ buckets: the middle of a bucket differs from its values by at most 1/1024.
const BITS_PER_OCTAVE: u32 = 9;
const BUCKETS_PER_OCTAVE: u64 = 1 << BITS_PER_OCTAVE;

/// The stored range begins and ends at multiples of this number of buckets.
const BUCKETS_PER_BLOCK: usize = 64;

/// A weighted histogram of durations. Its mean and extremes are exact. A quantile is the value of the
/// weight's rank (nearest rank, no interpolation) with a relative error below 0.1 %, and never beyond the
/// extremes.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Bucket of the first counter: only the occurring range is stored.
    first: usize,
    /// Weight of each bucket of the range, modulo 2³²: a flow has a histogram with thousands of buckets.
    weights: Vec<u32>,
    /// The rest of the weight of some buckets, in units of 2³².
    carries: Vec<(usize, u32)>,
    total: u64,
    weighted_nanos: u128,
    min: Duration,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            first: 0,
            weights: Vec::new(),
            carries: Vec::new(),
            total: 0,
            weighted_nanos: 0,
            min: Duration::MAX,
            max: Duration::ZERO,
        }
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value with a weight.
    #[inline]
    pub fn add(&mut self, value: Duration, weight: u64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.total += weight;
        self.weighted_nanos += u128::from(value.as_nanos()) * u128::from(weight);
        self.add_to_bucket(bucket(value.as_nanos()), weight);
    }

    #[inline]
    fn add_to_bucket(&mut self, bucket: usize, weight: u64) {
        if bucket.wrapping_sub(self.first) >= self.weights.len() {
            self.make_room(bucket);
        }
        let low = &mut self.weights[bucket - self.first];
        let sum = u64::from(*low) + weight;
        *low = sum as u32;
        if let carry @ 1.. = (sum >> 32) as u32 {
            self.carry(bucket, carry);
        }
    }

    /// Enlarges the stored range, so that it includes a bucket.
    #[cold]
    fn make_room(&mut self, bucket: usize) {
        let block = bucket / BUCKETS_PER_BLOCK * BUCKETS_PER_BLOCK;
        let (mut first, mut end) = (block, block + BUCKETS_PER_BLOCK);
        if !self.weights.is_empty() {
            // A copy for each block would cost the square of the range.
            let growth = self.weights.len() / 4 / BUCKETS_PER_BLOCK * BUCKETS_PER_BLOCK;
            let (before, after) = (self.first, self.first + self.weights.len());
            first = if bucket < before { first.min(before.saturating_sub(growth)) } else { before };
            end = if bucket < before { after } else { end.max(after + growth) };
        }
        let mut weights = vec![0; end - first];
        let kept = self.first.saturating_sub(first);
        weights[kept..kept + self.weights.len()].copy_from_slice(&self.weights);
        (self.first, self.weights) = (first, weights);
    }

    #[cold]
    fn carry(&mut self, bucket: usize, carry: u32) {
        match self.carries.iter_mut().find(|(other, _)| *other == bucket) {
            Some((_, sum)) => *sum += carry,
            None => self.carries.push((bucket, carry)),
        }
    }

    /// Weight of the bucket at a position of the stored range.
    #[inline]
    fn weight_at(&self, at: usize) -> u64 {
        let low = u64::from(self.weights[at]);
        if self.carries.is_empty() {
            return low;
        }
        let carry = self.carries.iter().find(|(bucket, _)| *bucket == self.first + at);
        low | carry.map_or(0, |&(_, carry)| u64::from(carry) << 32)
    }

    /// The exact mean in seconds; `None` without a value.
    pub fn mean_s(&self) -> Option<f64> {
        (self.total > 0).then(|| self.weighted_nanos as f64 / self.total as f64 / 1e9)
    }

    /// The smallest value that at least the share `q` of the weight does not exceed, in seconds; `None`
    /// without a value.
    pub fn quantile_s(&self, q: f64) -> Option<f64> {
        let target = (q * self.total as f64).ceil().max(1.0) as u64;
        if self.total > 0 && target >= self.total {
            return Some(self.max.as_secs_f64());
        }
        let mut sum = 0;
        for at in 0..self.weights.len() {
            sum += self.weight_at(at);
            if sum >= target {
                let [least, most] = [self.min, self.max].map(|extreme| extreme.as_nanos() as f64);
                return Some(middle(self.first + at).clamp(least, most) / 1e9);
            }
        }
        None
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.total += other.total;
        self.weighted_nanos += other.weighted_nanos;
        for at in 0..other.weights.len() {
            let weight = other.weight_at(at);
            if weight > 0 {
                self.add_to_bucket(other.first + at, weight);
            }
        }
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    if nanos < 2 * BUCKETS_PER_OCTAVE {
        return nanos as usize;
    }
    let octave = nanos.ilog2() - BITS_PER_OCTAVE;
    ((u64::from(octave) << BITS_PER_OCTAVE) + (nanos >> octave)) as usize
}

/// The middle of a bucket, nanoseconds.
fn middle(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    if bucket < 2 * BUCKETS_PER_OCTAVE {
        return bucket as f64;
    }
    let octave = (bucket >> BITS_PER_OCTAVE) - 1;
    let low = (bucket - (octave << BITS_PER_OCTAVE)) << octave;
    low as f64 + ((1_u64 << octave) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_continuous_and_close() {
        let mut last = 0;
        for nanos in 0..10_000 {
            assert!(bucket(nanos) == last || bucket(nanos) == last + 1, "{nanos}");
            last = bucket(nanos);
        }
        let powers = (1..60).map(|shift| 1_u64 << shift);
        for nanos in (0..10_000).chain(powers.flat_map(|power| [power - 1, power])) {
            let found = middle(bucket(nanos));
            assert!((found - nanos as f64).abs() <= nanos as f64 / 1000.0, "{nanos}: {found}");
        }
    }

    #[test]
    fn quantiles_match_a_uniform_distribution() {
        let mut histogram = Histogram::new();
        // In descending order, so that the stored range grows downwards.
        for millis in (1..=1000).rev() {
            histogram.add(Duration::from_millis(millis), 3);
        }
        assert!((histogram.mean_s().unwrap() - 0.5005).abs() < 1e-9);
        for (q, expected) in [(0.5, 0.5), (0.95, 0.95), (0.99, 0.99), (0.0, 0.001), (1.0, 1.0)] {
            let found = histogram.quantile_s(q).unwrap();
            assert!((found / expected - 1.0).abs() < 0.001, "{q}: {found}");
        }
        histogram.clear();
        assert_eq!((histogram.mean_s(), histogram.quantile_s(0.5)), (None, None));
    }

    #[test]
    fn weights_affect_quantiles() {
        let mut histogram = Histogram::new();
        histogram.add(Duration::from_millis(1), 99);
        histogram.add(Duration::from_secs(100), 1);
        assert!((histogram.quantile_s(0.99).unwrap() / 0.001 - 1.0).abs() < 0.001);
        assert!((histogram.quantile_s(0.999).unwrap() / 100.0 - 1.0).abs() < 0.001);
    }

    #[test]
    fn weights_may_exceed_32_bits() {
        let mut histogram = Histogram::new();
        let heavy = 3 << 33;
        for (millis, weight) in [(40, heavy), (1, u64::from(u32::MAX)), (1, 1), (7, heavy)] {
            histogram.add(Duration::from_millis(millis), weight);
        }
        let mut both = histogram.clone();
        both.merge(&histogram);
        // Shares of the weight: 1 of 13 for 1 ms, and 6 of 13 each for 7 ms and 40 ms.
        for (q, expected) in [(0.07, 0.001), (0.08, 0.007), (0.53, 0.007), (0.54, 0.04)] {
            for found in [histogram.quantile_s(q).unwrap(), both.quantile_s(q).unwrap()] {
                assert!((found / expected - 1.0).abs() < 0.001, "{q}: {found}");
            }
        }
    }

    #[test]
    fn quantiles_stay_within_the_extremes() {
        let mut histogram = Histogram::new();
        histogram.add(Duration::from_micros(10_822), 7);
        assert_eq!([0.0, 0.5, 0.99].map(|q| histogram.quantile_s(q)), [Some(0.010_822); 3]);
        histogram.add(Duration::from_nanos(10_822_001), 1);
        assert_eq!(histogram.quantile_s(1.0), Some(0.010_822_001));
    }
}
