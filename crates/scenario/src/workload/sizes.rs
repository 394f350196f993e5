//! Message sizes.

use crate::model::MessageSize;
use anabranch_base::rng::Rng;

/// Draws message sizes.
#[derive(Clone, Debug)]
pub struct Sizes {
    distribution: MessageSize,
    rng: Rng,
    /// Index of the next size of a list.
    next: usize,
}

impl Sizes {
    /// Draws from `distribution`.
    pub const fn new(distribution: MessageSize, rng: Rng) -> Self {
        Self { distribution, rng, next: 0 }
    }

    /// The next size, at least one byte.
    pub fn draw(&mut self) -> u64 {
        let size = match &self.distribution {
            MessageSize::Listed(list) => {
                let at = self.next;
                self.next = (at + 1) % list.sizes.len();
                list.sizes[at]
            }
            MessageSize::Constant(size) => *size,
            MessageSize::Uniform { low, high } => self.rng.between(*low, *high.max(low)),
            MessageSize::Exponential { mean } => self.rng.exponential(*mean).ceil() as u64,
            &MessageSize::Pareto { min, shape, max } => {
                // The inverse of the distribution function, truncated at the maximum: the weight beyond is
                // spread over all sizes in proportion. libm computes the same number on every machine.
                let within = 1.0 - libm::pow(min as f64 / max as f64, shape);
                let stretch = libm::pow(1.0 - self.rng.unit() * within, -1.0 / shape);
                (libm::round(min as f64 * stretch) as u64).clamp(min, max)
            }
        };
        size.max(1)
    }
}
