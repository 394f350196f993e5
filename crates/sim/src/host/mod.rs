//! Hosts: the endpoints of each flow, their applications, and what is measured there.

mod build;
mod flow;
mod fragments;
mod ledger;
mod meters;
mod ports;
mod protocols;

pub use build::{FlowError, Setup, flows};
pub use flow::{End, Flow, Parts, RECEIVER, SENDER, State, Streams};
pub use ledger::{Ledger, Service};
pub use meters::{Baseline, Meters, PathMeter};
pub use ports::Ports;
