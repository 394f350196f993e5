//! Traffic over the kernel's own sockets: runs the applications of a scenario, and measures the results.
//!
//! Every flow has a thread at each end for each direction of its data, in the network namespace of its host.
//! All threads read the same clock, so that delays are known; received data is compared with sent data, byte
//! by byte. A further thread per namespace queries the kernel for the state of its TCP connections and
//! subflows. Between machines, [`remote`] does the same with messages that contain their time of creation.

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
