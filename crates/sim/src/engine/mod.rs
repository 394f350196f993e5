//! The discrete-event engine: events, packets in flight, and links.

pub mod datapath;
mod entry;
pub mod events;
mod forwarding;
mod heap;
pub mod link;
pub mod slab;

pub use datapath::Datapath;
