//! UDP (RFC 768).

use crate::Payload;

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Payload.
    pub payload: Payload,
}

impl Datagram {
    /// Length of the header, bytes.
    pub const HEADER_LEN: u32 = 8;

    /// Exact length of header and payload, bytes.
    pub const fn wire_len(&self) -> u32 {
        Self::HEADER_LEN + self.payload.len
    }
}
