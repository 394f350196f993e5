//! The discrete-event engine: events, packets in flight, and the links that they move over.

pub mod datapath;
mod entry;
pub mod events;
mod forwarding;
mod heap;
pub mod link;
pub mod slab;

pub use datapath::Datapath;
