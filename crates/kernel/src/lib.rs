//! Coupled congestion controls for Linux's own Multipath TCP, as BPF, and their loader.
//!
//! The controls are written in C, in `bpf/`: one file of arithmetic for each, and one that makes a
//! `tcp_congestion_ops` of it. They are compiled in advance (`make bpf`) and included in the loader. Only
//! they are under the GPL, which the kernel requires.
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
