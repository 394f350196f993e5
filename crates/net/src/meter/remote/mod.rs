//! The meter between real machines: a server waits ([`Server`]), and a client requests a test ([`run`]).
//!
//! They negotiate a test over a separate control connection, with one line of JSON per message ([`control`]).
//! The server opens a port for each flow and accepts only connections that begin with the test's greeting; they may also
//! come to the port of the control connection ([`arrivals`]).
//! SCTP flows are streams of this crate's own associations in UDP ([`association`]), since few kernels have SCTP.
//! Every message contains its number and its time of creation ([`frame`]), so that losses and, if both ends
//! share a clock, delays are known; received data is compared with sent data, byte by byte.

mod arrivals;
mod association;
mod client;
mod control;
mod delivery;
mod frame;
mod open;
mod options;
mod outgoing;
mod plan;
mod queue;
mod result;
mod server;
mod session;
mod source;
mod stream_transfer;
mod streams;
mod talk;
mod tally;
mod waiter;

pub use client::{Event, Failure, run};
pub use control::PORT;
pub use options::{FlowOptions, OnOff};
pub use plan::{Plan, PlannedFlow, Test};
pub use result::Document;
pub use server::{Server, ServerEvent};
pub use session::Interval;
pub use source::Source;
