//! Traffic over the kernel's own sockets: runs the applications of a scenario, and measures the results.
//!
//! Every flow has a thread at each end for each direction of its data, in the network namespace of its host.
//! All threads read the same clock, so that delays are known; received data is compared with sent data, byte
//! by byte. A further thread per namespace queries the kernel for the state of its TCP connections and
//! subflows. Ends of flows with our own stack (`own`) share a thread per host. Between machines, [`remote`] does the same with messages that contain their time of creation.

mod diag;
mod end;
mod flow;
mod own;
mod reader;
mod record;
pub mod remote;
mod repetitions;
mod report;
mod run;
mod sampler;
mod samples;
mod schedule;
mod socket;
mod source;
mod span;
mod speaker;
mod writer;

pub use flow::{FlowError, own_ends};
pub use run::{Measuring, Meter, MeterError, Settings};
