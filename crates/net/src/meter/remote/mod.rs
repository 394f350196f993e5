//! The meter between real machines: one waits ([`Server`]), another asks it for a test ([`run`]).
//!
//! They arrange a test over a control connection of its own, a line of JSON each ([`control`]). The server opens a port for
//! each flow and takes only connections that begin with the test's greeting. Every message says which it is and when it was
//! made ([`frame`]), so that losses and, where both ends read one clock, delays are known; what arrives is compared with what
//! was sent, byte by byte.

mod client;
mod control;
mod frame;
mod open;
mod plan;
mod result;
mod server;
mod session;
mod talk;
mod tally;

pub use client::{Failure, run};
pub use control::PORT;
pub use plan::{Plan, PlannedFlow, Test};
pub use result::Document;
pub use server::{News, Server};
pub use session::Interval;
