//! Protocol cores without input or output: TCP, Multipath TCP, SCTP and CMT-SCTP.
//!
//! A core is a value that owns no clock, socket, thread or random source. See [`Endpoint`] for how to drive one.

pub mod blocked;
pub mod bytes;
pub mod drive;
pub mod endpoint;
pub mod ends;
pub mod rate;
pub mod secrets;

pub use blocked::{Spent, Waits};
pub use bytes::{Bytes, Socket};
pub use drive::{Driver, drive};
pub use endpoint::{
    Arrival, Counters, Delivery, Endpoint, Event, Gauge, Held, NetworkEvent, PathReport, Place, Placement,
    Quote, Reason, Reliability, Report, Scheduled, StreamChange, Unreachable, Why, Write,
};
pub use ends::{Address, Ends};
pub use secrets::Secrets;
