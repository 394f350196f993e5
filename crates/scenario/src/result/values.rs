//! Values of several numbers in a result, and Jain's index.

use crate::measure::Histogram;
use serde::{Deserialize, Serialize};

/// A distribution; of times in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Quantiles {
    /// Quantiles of a histogram; `None` if it is empty.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let quantile = |q| histogram.quantile_s(q).unwrap_or_default();
        let mean = histogram.mean_s()?;
        Some(Self { mean, p50: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99) })
    }

    /// Quantiles of single values (nearest rank, no interpolation); `None` if there are none.
    pub fn of_values(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let rank = |q: f64| ((q * values.len() as f64).ceil() as usize).saturating_sub(1).min(last);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Self { mean, p50: values[rank(0.5)], p95: values[rank(0.95)], p99: values[rank(0.99)] })
    }
}

/// A value over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanMax {
    /// Mean over time.
    pub mean: f64,
    /// Largest value.
    pub max: u64,
}

/// Jain's fairness index, (Σx)² / (n Σx²); `None` without a positive value.
pub fn jain(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        n += 1.0;
        sum += value;
        squares += value * value;
    }
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_equals_values_computed_by_hand() {
        assert_eq!(jain([3.0, 3.0].into_iter()), Some(1.0));
        assert_eq!(jain([5.0, 0.0].into_iter()), Some(0.5));
        assert!((jain([1.0, 3.0].into_iter()).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(jain([0.0].into_iter()), None);
    }

    #[test]
    fn quantiles_are_those_of_the_nearest_rank() {
        let found = Quantiles::of_values((1..=200).rev().map(f64::from).collect());
        assert_eq!(found, Some(Quantiles { mean: 100.5, p50: 100.0, p95: 190.0, p99: 198.0 }));
        let one = Quantiles { mean: 7.0, p50: 7.0, p95: 7.0, p99: 7.0 };
        assert_eq!((Quantiles::of_values(vec![7.0]), Quantiles::of_values(Vec::new())), (Some(one), None));
    }
}
