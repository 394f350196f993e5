//! `ABORT`: the end of an association without a handshake (RFC 9260 §3.3.7).

use super::{CHUNK_HEADER_LEN, Cause, cause};

/// An `ABORT` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abort {
    /// T: the verification tag is the one that the other side wrote, since the sender knows no other (§8.5.1).
    pub reflected_tag: bool,
    /// Why.
    pub causes: Vec<Cause>,
}

impl Abort {
    /// The chunk's length field: bytes without the padding of the last cause.
    pub fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + cause::list_length(&self.causes)
    }
}
