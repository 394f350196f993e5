//! `SHUTDOWN`, `SHUTDOWN ACK` and `SHUTDOWN COMPLETE`: the orderly end (RFC 9260 §3.3.8, §3.3.9, §3.3.13).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |   Type = 7    |  Chunk Flags  |          Length = 8           |
//! +---------------+---------------+-------------------------------+
//! |                      Cumulative TSN Ack                       |
//! +---------------------------------------------------------------+
//!
//! +---------------+---------------+-------------------------------+
//! |   Type = 8    |  Chunk Flags  |          Length = 4           |
//! +---------------+---------------+-------------------------------+
//!
//! +---------------+-------------+-+-------------------------------+
//! |   Type = 14   |  Reserved   |T|          Length = 4           |
//! +---------------+-------------+-+-------------------------------+
//! ```

use super::{kind, tlv};
use crate::error::{Header, ParseError};
use crate::seq::Serial;

/// A `SHUTDOWN` chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// The last TSN received before the first gap.
    pub cumulative_tsn: Serial,
}

/// A `SHUTDOWN COMPLETE` chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownComplete {
    /// T: the verification tag is a copy of the received one, because the sender has no state that contains another tag (§8.5.1).
    pub reflected_tag: bool,
}

impl Shutdown {
    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.cumulative_tsn.0.to_be_bytes());
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let tsn = tlv::fixed_value(Header::SctpChunk(kind::SHUTDOWN), value)?;
        Ok(Self { cumulative_tsn: Serial(u32::from_be_bytes(tsn)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, refuse_chunk};

    #[test]
    fn encodings_equal_vectors() {
        let shutdown = Shutdown { cumulative_tsn: Serial(0x0102_0304) };
        check_chunk(&Chunk::Shutdown(shutdown), "07 00 0008 01020304");
        check_chunk(&Chunk::ShutdownAck, "08 00 0004");
        check_chunk(&Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: false }), "0e 00 0004");
        check_chunk(&Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: true }), "0e 01 0004");
    }

    #[test]
    fn other_lengths_are_refused() {
        refuse_chunk("07 00 0004");
        refuse_chunk("07 00 000c 01020304 00000000");
        refuse_chunk("08 00 0005 00000000");
        refuse_chunk("0e 00 0008 00000000");
    }
}
