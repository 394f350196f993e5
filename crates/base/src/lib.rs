//! Time, random streams, units and rate limits: the types that all crates of Anabranch share.
//!
//! For authors of protocol cores, link models and simulators. Read [`Time`](time::Time) and
//! [`Duration`](time::Duration) first, which count integer nanoseconds; then [`Rng`](rng::Rng), a random stream,
//! [`Rate`](units::Rate), and [`RateLimit`], a token bucket.
//!
//! This crate reads neither a clock nor a global random source: a caller passes the time, and every random
//! stream is forked from a seed and the name of its component.
//!
//! ```
//! use anabranch_base::RateLimit;
//! use anabranch_base::rng::Rng;
//! use anabranch_base::time::{Duration, Time};
//! use anabranch_base::units::Rate;
//!
//! // A packet of 1500 bytes occupies a link of 12 Mbit/s for one millisecond.
//! let packet = Rate::from_bits_per_second(12_000_000).time_to_send(1500);
//! assert_eq!(packet, Duration::from_millis(1));
//! let departure = Time::ZERO + packet;
//! assert_eq!(departure.since(Time::ZERO), packet);
//!
//! // The same seed and name give the same stream on every machine; another name gives another stream.
//! let draw = |name| Rng::new(1).fork(name).next_u64();
//! assert_eq!(draw("link"), draw("link"));
//! assert_ne!(draw("link"), draw("queue"));
//!
//! // At most two events a second: the third is refused.
//! let mut limit = RateLimit::per_second(2);
//! assert_eq!([(); 3].map(|()| limit.allows(departure)), [true, true, false]);
//! ```

#[cfg(test)]
mod proofs;
mod rate_limit;
pub mod rng;
pub mod time;
pub mod units;

pub use rate_limit::RateLimit;
