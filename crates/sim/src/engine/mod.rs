//! The discrete-event engine.

pub mod heap;
pub mod slab;
