//! Measurement for every world: quantiles of delays, means over time, recovery from outages, and delivery after
//! events.

mod after_events;
mod datagrams;
mod histogram;
mod mean;
mod pace;
mod voice;

pub use after_events::{AFTER_EVENT_SPAN, AfterEvents, Deliveries, MAX_COUNTED_EVENTS};
pub use datagrams::Datagrams;
pub use histogram::Histogram;
pub use mean::TimeMeans;
pub use pace::{Outage, Pace};
pub use voice::{Codec, Rating, Voice};
