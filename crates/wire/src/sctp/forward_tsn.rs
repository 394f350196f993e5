//! `FORWARD TSN` (RFC 3758 §3.2) and `I-FORWARD-TSN` (RFC 8260 §2.3.1): the sender gives up some TSNs.

use super::CHUNK_HEADER_LEN;
use crate::seq::Serial;

/// The last ordered message given up on a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number.
    pub ssn: u16,
}

/// A `FORWARD TSN` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardTsn {
    /// The receiver moves its cumulative TSN here.
    pub cumulative_tsn: Serial,
    /// Streams with ordered messages given up.
    pub skipped: Vec<Skipped>,
}

impl ForwardTsn {
    /// The chunk's length field, bytes; always a multiple of 4.
    pub const fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + 4 + 4 * self.skipped.len() as u32
    }
}

/// The last message given up on a stream, ordered and unordered apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedMessage {
    /// Stream identifier.
    pub stream: u16,
    /// The message was unordered.
    pub unordered: bool,
    /// Message identifier.
    pub mid: Serial,
}

/// An `I-FORWARD-TSN` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IForwardTsn {
    /// The receiver moves its cumulative TSN here.
    pub cumulative_tsn: Serial,
    /// Streams with messages given up.
    pub skipped: Vec<SkippedMessage>,
}

impl IForwardTsn {
    /// The chunk's length field, bytes; always a multiple of 4.
    pub const fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + 4 + 8 * self.skipped.len() as u32
    }
}
