//! The simulated world: a deterministic discrete-event engine that drives the protocol cores of `transport` over
//! modelled links, from a scenario file to a result document.

pub mod engine;
pub mod host;
pub mod measure;
pub mod presets;
pub mod report;
pub mod simulation;

pub use anabranch_scenario as scenario;
pub use anabranch_scenario::result::RunResult;
pub use simulation::{Progress, RunError, RunOptions, Simulation, run, run_with};
