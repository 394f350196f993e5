//! `DATA`: a message or a fragment of one (RFC 9260 §3.3.1).

use crate::Payload;
use crate::seq::Serial;

/// The flags of `DATA` and `I-DATA`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataFlags(pub u8);

impl DataFlags {
    /// E: the last fragment of a message.
    pub const END: Self = Self(0x01);
    /// B: the first fragment of a message.
    pub const BEGINNING: Self = Self(0x02);
    /// U: the message is delivered without regard to its stream's order.
    pub const UNORDERED: Self = Self(0x04);
    /// I: the sender asks for an immediate SACK.
    pub const IMMEDIATE: Self = Self(0x08);
    /// B and E: a message that was not fragmented.
    pub const WHOLE: Self = Self(0x03);

    /// True if all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// `self` without the bits of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl core::ops::BitOr for DataFlags {
    type Output = Self;
    fn bitor(self, rhs: Self) -> Self {
        self.union(rhs)
    }
}

impl core::ops::BitOrAssign for DataFlags {
    fn bitor_assign(&mut self, rhs: Self) {
        *self = *self | rhs;
    }
}

/// A `DATA` chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Transmission sequence number.
    pub tsn: Serial,
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number, the same in all fragments of a message; ignored when unordered.
    pub ssn: u16,
    /// Payload protocol identifier, the application's.
    pub ppid: u32,
    /// Flags.
    pub flags: DataFlags,
    /// User data. An empty one is a protocol violation (RFC 9260 §6.2) that the receiver must be able to see.
    pub payload: Payload,
}

impl Data {
    /// Bytes before the payload, chunk header included.
    pub const HEADER_LEN: u32 = 16;

    /// The chunk's length field: bytes without padding.
    pub const fn length(&self) -> u32 {
        Self::HEADER_LEN + self.payload.len
    }
}
