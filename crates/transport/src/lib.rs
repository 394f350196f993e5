//! Protocol cores without input or output: TCP, Multipath TCP, SCTP and CMT-SCTP.
//!
//! A core is a value that owns no clock, socket, thread or random source. See [`Endpoint`] for how to drive one.

pub mod blocked;
pub mod endpoint;
pub mod mptcp;
pub mod sctp;
pub mod tcp;

pub use blocked::{Spent, Waits};
pub use endpoint::{Counters, Delivery, Endpoint, Event, PathReport, Reason, Report, Scheduled, Why, Write};

#[cfg(test)]
mod harness;
