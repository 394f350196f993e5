//! The discrete-event engine: events, packets in flight, and the links that they move over.

mod entry;
pub mod events;
pub mod fabric;
mod heap;
pub mod link;
pub mod slab;
mod ways;

pub use fabric::Fabric;
