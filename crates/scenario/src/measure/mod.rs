//! Measurement for every world: quantiles of delays, means over time, recovery from outages, and delivery after
//! events.

mod after_events;
mod histogram;
mod mean;
mod pace;

pub use after_events::{AFTER_EVENT_SPAN, AfterEvents, Deliveries, MAX_COUNTED_EVENTS};
pub use histogram::Histogram;
pub use mean::TimeMeans;
pub use pace::{Outage, Pace};
