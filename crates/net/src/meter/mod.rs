//! Traffic over the kernel's own sockets: the applications of a scenario, and what came of them.
//!
//! Every flow has a thread at each end for each way of its data, in the network namespace of its host. All read the same
//! clock, so that the age of what arrives is known; what arrives is compared with what was sent, byte by byte. A further
//! thread for each namespace asks the kernel for the state of its TCP connections and subflows. Between machines, [`remote`]
//! does the same by messages that say their own age.

mod diag;
mod end;
mod flow;
mod reader;
mod record;
pub mod remote;
mod report;
mod run;
mod sampler;
mod socket;
mod span;
mod speaker;
mod writer;

pub use flow::FlowError;
pub use run::{Measuring, Meter, MeterError, Settings};
