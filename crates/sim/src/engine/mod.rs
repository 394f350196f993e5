//! The discrete-event engine: events, packets in flight, and the links that they move over.

pub mod fabric;
pub mod heap;
pub mod slab;

pub use fabric::Fabric;
