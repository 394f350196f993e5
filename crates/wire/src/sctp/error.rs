//! `ERROR`: a report that does not end the association (RFC 9260 §3.3.10).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |   Type = 9    |  Chunk Flags  |            Length             |
//! +---------------+---------------+-------------------------------+
//! :                   one or more Error Causes                    :
//! +---------------------------------------------------------------+
//! ```

use super::{CHUNK_HEADER_LEN, Cause, cause};
use crate::error::ParseError;

/// An `ERROR` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Error {
    /// The errors; at least one.
    pub causes: Vec<Cause>,
}

impl Error {
    /// The chunk's length field: bytes without the padding of the last cause.
    pub fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + cause::list_length(&self.causes)
    }
}

impl Error {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        cause::emit_list(&self.causes, out);
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        Ok(Self { causes: cause::parse_list(value)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, refuse_chunk};

    #[test]
    fn encoding_equals_vector() {
        let error = Error { causes: vec![Cause::StaleCookie { staleness_us: 0x0001_0000 }] };
        check_chunk(&Chunk::Error(error), "09 00 000c 0003 0008 00010000");
    }

    #[test]
    fn truncated_cause_is_refused() {
        refuse_chunk("09 00 0006 0003 0000");
    }
}
