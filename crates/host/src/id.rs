//! Identifiers of a host's connections.

use core::num::NonZeroU32;

/// A connection of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId {
    pub(super) slot: u32,
    pub(super) generation: NonZeroU32,
}
