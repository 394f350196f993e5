//! `ABORT`: the end of an association without a handshake (RFC 9260 §3.3.7).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+-------------+-+-------------------------------+
//! |   Type = 6    |  Reserved   |T|            Length             |
//! +---------------+-------------+-+-------------------------------+
//! :                   zero or more Error Causes                   :
//! +---------------------------------------------------------------+
//! ```

use super::{CHUNK_HEADER_LEN, Cause, cause};
use crate::error::ParseError;

/// An `ABORT` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abort {
    /// T: the verification tag is a copy of the received one, because the sender has no state that contains another tag (§8.5.1).
    pub reflected_tag: bool,
    /// The reasons.
    pub causes: Vec<Cause>,
}

impl Abort {
    /// The chunk's length field: bytes without the padding of the last cause.
    pub fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + cause::list_length(&self.causes)
    }
}

impl Abort {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        cause::emit_list(&self.causes, out);
    }

    pub(super) fn parse(reflected_tag: bool, value: &[u8]) -> Result<Self, ParseError> {
        Ok(Self { reflected_tag, causes: cause::parse_list(value)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, refuse_chunk};

    #[test]
    fn encodings_equal_vectors() {
        check_chunk(&Chunk::Abort(Abort::default()), "06 00 0004");
        check_chunk(&Chunk::Abort(Abort { reflected_tag: true, causes: vec![] }), "06 01 0004");
        let abort = Abort {
            reflected_tag: false,
            causes: vec![Cause::UserInitiatedAbort(b"enough".as_slice().into()), Cause::OutOfResource],
        };
        check_chunk(&Chunk::Abort(abort), "06 00 0014 000c 000a 656e6f756768 0000 0004 0004");
    }

    #[test]
    fn cause_beyond_the_chunk_is_refused() {
        refuse_chunk("06 00 0008 000c 000a");
    }
}
