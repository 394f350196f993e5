//! `HEARTBEAT` and `HEARTBEAT ACK`: probes of a path (RFC 9260 §3.3.5, §3.3.6).

use super::{CHUNK_HEADER_LEN, parameter};

/// A `HEARTBEAT` or `HEARTBEAT ACK` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Heartbeat information, opaque to all but its sender: the value of the one parameter.
    pub info: Box<[u8]>,
}

impl Heartbeat {
    /// Bytes before the information: the headers of chunk and parameter.
    pub const HEADER_LEN: u32 = CHUNK_HEADER_LEN + parameter::HEADER_LEN;

    /// The chunk's length field: bytes without padding.
    pub const fn length(&self) -> u32 {
        Self::HEADER_LEN + self.info.len() as u32
    }
}
