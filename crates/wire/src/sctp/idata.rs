//! `I-DATA`: a message or a fragment of one that may interleave with others (RFC 8260 §2.1).

use super::DataFlags;
use crate::Payload;
use crate::seq::Serial;

/// An `I-DATA` chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IData {
    /// Transmission sequence number.
    pub tsn: Serial,
    /// Stream identifier.
    pub stream: u16,
    /// Message identifier, counted per stream, ordered and unordered messages apart.
    pub mid: Serial,
    /// The payload protocol identifier in the first fragment, the fragment sequence number in the later ones;
    /// read it with [`IData::ppid`] and [`IData::fsn`].
    pub ppid_or_fsn: u32,
    /// Flags.
    pub flags: DataFlags,
    /// User data.
    pub payload: Payload,
}

impl IData {
    /// Bytes before the payload, chunk header included.
    pub const HEADER_LEN: u32 = 20;

    /// The chunk's length field: bytes without padding.
    pub const fn length(&self) -> u32 {
        Self::HEADER_LEN + self.payload.len
    }

    /// The payload protocol identifier, which only the first fragment carries.
    pub const fn ppid(&self) -> Option<u32> {
        if self.flags.contains(DataFlags::BEGINNING) { Some(self.ppid_or_fsn) } else { None }
    }

    /// The fragment sequence number; the first fragment's is 0 without being written.
    pub const fn fsn(&self) -> u32 {
        if self.flags.contains(DataFlags::BEGINNING) { 0 } else { self.ppid_or_fsn }
    }
}
