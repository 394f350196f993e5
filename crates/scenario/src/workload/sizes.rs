//! Message sizes.

use crate::model::MessageSize;
use multipath::rng::Rng;

/// Draws message sizes.
#[derive(Clone, Debug)]
pub struct Sizes {
    distribution: MessageSize,
    rng: Rng,
}

impl Sizes {
    /// Draws from `distribution`.
    pub const fn new(distribution: MessageSize, rng: Rng) -> Self {
        Self { distribution, rng }
    }

    /// The next size, at least one byte.
    pub fn draw(&mut self) -> u64 {
        let size = match self.distribution {
            MessageSize::Constant(size) => size,
            MessageSize::Uniform { low, high } => self.rng.between(low, high.max(low)),
            MessageSize::Exponential { mean } => self.rng.exponential(mean).ceil() as u64,
            MessageSize::Pareto { min, shape, max } => {
                // The inverse of the distribution function; libm computes the same number on every machine.
                let stretch = libm::pow(1.0 - self.rng.unit(), -1.0 / shape);
                ((min as f64 * stretch) as u64).min(max)
            }
        };
        size.max(1)
    }
}
