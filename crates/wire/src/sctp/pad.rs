//! `PAD`: makes a packet longer and has no other meaning (RFC 4820 §3). Path MTU probes use it.
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |  Type = 0x84  |   Flags = 0   |            Length             |
//! +---------------+---------------+-------------------------------+
//! :                         Padding Data                          :
//! +---------------------------------------------------------------+
//! ```

use super::CHUNK_HEADER_LEN;

/// A `PAD` chunk. Its bytes are written as zeros and ignored on reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pad {
    /// Bytes of padding.
    pub len: u16,
}

impl Pad {
    /// The chunk's length field: bytes without the padding to a multiple of four.
    pub const fn length(self) -> u32 {
        CHUNK_HEADER_LEN + self.len as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, hex};

    #[test]
    fn encodings_equal_vectors() {
        check_chunk(&Chunk::Pad(Pad { len: 0 }), "84 00 0004");
        check_chunk(&Chunk::Pad(Pad { len: 5 }), "84 00 0009 00000000 00 000000");
        let (read, _) = Chunk::parse(&hex("84 07 0006 abcd 0000")).unwrap().unwrap();
        assert_eq!(read, Chunk::Pad(Pad { len: 2 }));
    }
}
