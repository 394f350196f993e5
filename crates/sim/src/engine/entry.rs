//! An event in the queue: 16 bytes.

/// A component and the time of its event. Ordered by time and, at equal times, by component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Nanoseconds since the start of the run.
    pub time: u64,
    /// The component.
    pub component: u32,
}

impl Entry {
    /// The sort key of events.
    #[inline]
    pub const fn key(self) -> u128 {
        ((self.time as u128) << 64) | self.component as u128
    }

    /// True if this event comes first.
    #[inline]
    pub const fn before(self, other: Self) -> bool {
        self.key() < other.key()
    }
}
