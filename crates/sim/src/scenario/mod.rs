//! Scenario files: one experiment each, the same for every world.

pub mod model;

pub use model::Scenario;
