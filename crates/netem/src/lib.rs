//! Networks of links: topology and routing, links with queues, loss and reordering, and changes during a run.
//!
//! Everything here is sans-IO and generic over its payload ([`Frame`]): a simulator passes handles of
//! packets, an emulator packets, and equal arrivals lead to equal decisions. This crate has no clock, no
//! protocol and no scenario file.
//!
//! Queues and loss models declare the keys of their settings ([`keys`]); the scenario reader takes them from
//! [`queue::KINDS`] and [`loss::KINDS`].

mod frame;
pub mod keys;
mod limit;
pub mod link;
pub mod loss;
mod model;
pub mod network;
pub mod queue;

pub use frame::{DropCause, Dropped, Drops, Frame};
pub use link::{Link, Totals};
pub use model::{Change, LinkModel, LinkRate, Reorder};
pub use network::{Interface, IpVersion, Network, Scope};
