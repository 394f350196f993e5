//! Output of a run: its result document, traces over time, and a capture of its packets.

pub use anabranch_scenario::result::capture;
mod arrivals;
pub mod collect;
pub(crate) mod route;
pub mod sample;
pub mod trace;
mod wanted;
