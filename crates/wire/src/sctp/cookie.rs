//! `COOKIE ECHO` and `COOKIE ACK`: the second half of the handshake (RFC 9260 §3.3.11, §3.3.12).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |   Type = 10   |  Chunk Flags  |            Length             |
//! +---------------+---------------+-------------------------------+
//! :                            Cookie                             :
//! +---------------------------------------------------------------+
//!
//! +---------------+---------------+-------------------------------+
//! |   Type = 11   |  Chunk Flags  |          Length = 4           |
//! +---------------+---------------+-------------------------------+
//! ```
//!
//! [`Chunk`](super::Chunk) reads and writes both itself, since they have hardly any fields.

use super::CHUNK_HEADER_LEN;

/// A `COOKIE ECHO` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CookieEcho {
    /// The state cookie, an exact copy of that in `INIT ACK`.
    pub cookie: Box<[u8]>,
}

impl CookieEcho {
    /// The chunk's length field: bytes without padding.
    pub const fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + self.cookie.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, refuse_chunk};

    #[test]
    fn encodings_equal_vectors() {
        let echo = CookieEcho { cookie: Box::new([0xc0, 0x0c, 0x1e]) };
        check_chunk(&Chunk::CookieEcho(echo), "0a 00 0007 c00c1e 00");
        check_chunk(&Chunk::CookieAck, "0b 00 0004");
    }

    #[test]
    fn acknowledgement_is_empty() {
        refuse_chunk("0b 00 0008 00000000");
    }
}
