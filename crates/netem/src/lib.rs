//! Networks of links: topology and routing, links with their queues, loss and reordering, and what changes on the way.
//!
//! Everything here is sans-IO and generic over what it carries ([`Frame`]): a simulator hands in handles of packets, an
//! emulator packets, and given the same arrivals both get the same decisions. No clock, no protocol, no scenario file.
//!
//! Queues and loss models declare the keys that scenarios set them by ([`keys`]); whoever reads scenarios takes them from
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
