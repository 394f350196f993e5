//! Identifiers of a host's connections.

use core::num::NonZeroU32;

/// A connection of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId {
    pub(super) slot: u32,
    pub(super) generation: NonZeroU32,
}

impl ConnectionId {
    /// The identifier as a number, for records.
    pub const fn to_number(self) -> u64 {
        (self.generation.get() as u64) << 32 | self.slot as u64
    }

    /// The identifier with this number; `None` if no identifier has it.
    pub fn from_number(number: u64) -> Option<Self> {
        Some(Self { slot: number as u32, generation: NonZeroU32::new((number >> 32) as u32)? })
    }
}
