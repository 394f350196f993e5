//! An event as the queue keeps it: 16 bytes.

/// A component and when it has something to do. Ordered by time and, at one moment, by component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Nanoseconds since the start of the run.
    pub time: u64,
    /// What has something to do.
    pub component: u32,
}

impl Entry {
    /// What events are ordered by.
    #[inline]
    pub const fn key(self) -> u128 {
        ((self.time as u128) << 64) | self.component as u128
    }

    /// Whether this event comes first.
    #[inline]
    pub const fn before(self, other: Self) -> bool {
        self.key() < other.key()
    }
}
