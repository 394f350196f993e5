//! Measurement for every world: quantiles of delays, means over time, and recovery from outages.

mod histogram;
mod mean;
mod pace;

pub use histogram::Histogram;
pub use mean::TimeMeans;
pub use pace::{Outage, Pace};
