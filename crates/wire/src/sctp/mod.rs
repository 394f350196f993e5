//! SCTP packets (RFC 9260).

use crate::seq::Serial;

/// An SCTP packet: common header and chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Verification tag.
    pub verification_tag: u32,
    /// Chunks, in order.
    pub chunks: Vec<Chunk>,
}

/// A chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// `COOKIE ACK` (RFC 9260 §3.3.12).
    CookieAck,
    /// `SHUTDOWN` (RFC 9260 §3.3.8).
    Shutdown {
        /// Highest TSN received in sequence.
        cumulative_tsn: Serial,
    },
}

impl Packet {
    /// Exact length in bytes: the common header of 12 and every chunk with its padding.
    pub fn wire_len(&self) -> u32 {
        12 + self.chunks.iter().map(Chunk::wire_len).sum::<u32>()
    }
}

impl Chunk {
    /// Length in bytes, padding included.
    pub const fn wire_len(&self) -> u32 {
        match self {
            Self::CookieAck => 4,
            Self::Shutdown { .. } => 8,
        }
    }
}
