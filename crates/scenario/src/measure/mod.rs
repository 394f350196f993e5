//! What every world measures with: quantiles of delays and means over time.

mod histogram;
mod mean;

pub use histogram::Histogram;
pub use mean::TimeMeans;
