//! Traffic over the kernel's own sockets: the applications of a scenario, and what came of them.
//!
//! Every flow has a thread at each end, in the network namespace of its host. Both read the same clock, so that the age of
//! what arrives is known; what arrives is compared with what was sent, byte by byte. A further thread for each namespace
//! asks the kernel for the state of its TCP connections and subflows.

mod diag;
mod flow;
mod receiver;
mod record;
mod report;
mod run;
mod sampler;
mod sender;
mod socket;
mod span;

pub use flow::FlowError;
pub use run::{Measuring, Meter, MeterError, Settings};
