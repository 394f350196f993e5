//! `COOKIE ECHO` and `COOKIE ACK`: the second half of the handshake (RFC 9260 §3.3.11, §3.3.12).

use super::CHUNK_HEADER_LEN;

/// A `COOKIE ECHO` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CookieEcho {
    /// The state cookie exactly as `INIT ACK` brought it.
    pub cookie: Box<[u8]>,
}

impl CookieEcho {
    /// The chunk's length field: bytes without padding.
    pub const fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + self.cookie.len() as u32
    }
}
