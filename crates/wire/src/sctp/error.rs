//! `ERROR`: a report that does not end the association (RFC 9260 §3.3.10).

use super::{CHUNK_HEADER_LEN, Cause, cause};

/// An `ERROR` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Error {
    /// What was wrong; at least one.
    pub causes: Vec<Cause>,
}

impl Error {
    /// The chunk's length field: bytes without the padding of the last cause.
    pub fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + cause::list_length(&self.causes)
    }
}
