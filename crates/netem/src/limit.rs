//! Capacity of a queue.

use core::fmt;

/// The capacity of a queue. It does not include the packet being transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// A number of packets.
    Packets(u64),
    /// A number of bytes of IP packets.
    Bytes(u64),
}

impl QueueLimit {
    /// The capacity in its unit.
    pub const fn amount(self) -> u64 {
        match self {
            Self::Packets(amount) | Self::Bytes(amount) => amount,
        }
    }

    /// True if this number of packets and bytes exceeds the limit.
    #[inline]
    pub const fn exceeded_by(self, packets: u64, bytes: u64) -> bool {
        match self {
            Self::Packets(most) => packets > most,
            Self::Bytes(most) => bytes > most,
        }
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
        }
    }
}
