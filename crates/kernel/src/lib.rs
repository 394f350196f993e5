//! Coupled congestion controls for Linux's own Multipath TCP, as BPF, and what loads them.
//!
//! The controls are C, in `bpf/`: one file of arithmetic for each, and one that makes a `tcp_congestion_ops` of it. They are
//! compiled beforehand (`make bpf`) and travel within the loader. They alone are under the GPL, which the kernel asks of them.
#![cfg(target_os = "linux")]

mod control;
mod error;
mod inherited;
mod link;
mod loader;
mod log;
mod machine;
mod object;
mod pins;
mod select;

pub use control::{CONTROLS, Control, Settings, find};
pub use error::Error;
pub use loader::{Loaded, Outcome, Statistics, list, load, unload};
pub use machine::{Finding, examine};
pub use select::{detach, hold, run};
