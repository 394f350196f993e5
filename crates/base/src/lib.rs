//! The ground that all crates of Anabranch stand on: [`time`] in integer nanoseconds, reproducible random streams
//! ([`rng`]), [`units`] and a [`RateLimit`].
//!
//! Nothing here reads a clock or a global random source: a caller passes the time, and every random stream is forked
//! from a seed and the name of its component.
//!
//! ```
//! use anabranch_base::rng::Rng;
//! use anabranch_base::time::{Duration, Time};
//!
//! let start = Time::ZERO;
//! assert_eq!((start + Duration::from_millis(20)).since(start), Duration::from_millis(20));
//! // The same seed and name give the same stream on every machine.
//! assert_eq!(Rng::new(1).fork("link").next_u64(), Rng::new(1).fork("link").next_u64());
//! ```

mod rate_limit;
pub mod rng;
pub mod time;
pub mod units;

pub use rate_limit::RateLimit;
