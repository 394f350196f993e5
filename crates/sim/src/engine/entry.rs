//! An event as the queue keeps it: 16 bytes.

/// Bits of an entry's second word that name the component; the rest is the insertion number.
pub const COMPONENT_BITS: u32 = 24;

/// Time, then insertion number with the component in the low bits: ordered as one 128-bit number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Nanoseconds since the start of the run.
    pub time: u64,
    /// Insertion number and component.
    pub order: u64,
}

impl Entry {
    /// What events are ordered by.
    #[inline]
    pub const fn key(self) -> u128 {
        ((self.time as u128) << 64) | self.order as u128
    }

    /// Whether this event comes first.
    #[inline]
    pub const fn before(self, other: Self) -> bool {
        self.key() < other.key()
    }

    /// The component that it is for.
    #[inline]
    pub const fn component(self) -> u32 {
        (self.order & ((1 << COMPONENT_BITS) - 1)) as u32
    }
}
