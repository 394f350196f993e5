//! `HEARTBEAT` and `HEARTBEAT ACK`: probes of a path (RFC 9260 §3.3.5, §3.3.6).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! | Type = 4 or 5 |  Chunk Flags  |       Heartbeat Length        |
//! +---------------+---------------+-------------------------------+
//! |    Heartbeat Info Type = 1    |         HB Info Length        |
//! +-------------------------------+-------------------------------+
//! :              Sender-Specific Heartbeat Info                   :
//! +---------------------------------------------------------------+
//! ```

use super::{CHUNK_HEADER_LEN, parameter, tlv};
use crate::error::{Header, ParseError, Problem};

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

impl Heartbeat {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let length = parameter::HEADER_LEN + self.info.len() as u32;
        tlv::emit_header(parameter::kind::HEARTBEAT_INFO, length, out);
        out.extend_from_slice(&self.info);
    }

    pub(super) fn parse(kind: u8, value: &[u8]) -> Result<Self, ParseError> {
        let mut parameters = tlv::parse_list(value, |kind, value| match kind {
            parameter::kind::HEARTBEAT_INFO => Ok(Self { info: value.into() }),
            _ => Err(ParseError::new(Header::SctpParameter(kind), 0, Problem::Value(kind.into()))),
        })?;
        // The chunk has exactly one parameter; more could not be returned unchanged.
        match (parameters.pop(), parameters.is_empty()) {
            (Some(heartbeat), true) => Ok(heartbeat),
            _ => Err(tlv::wrong_length(Header::SctpChunk(kind), value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, refuse_chunk};

    #[test]
    fn encodings_equal_vectors() {
        let heartbeat = Heartbeat { info: Box::new([1, 2, 3, 4, 5]) };
        check_chunk(&Chunk::Heartbeat(heartbeat.clone()), "04 00 000d 0001 0009 0102030405 000000");
        check_chunk(&Chunk::HeartbeatAck(heartbeat), "05 00 000d 0001 0009 0102030405 000000");
        check_chunk(&Chunk::Heartbeat(Heartbeat::default()), "04 00 0008 0001 0004");
    }

    #[test]
    fn one_parameter_of_the_right_type_is_required() {
        refuse_chunk("04 00 0004");
        refuse_chunk("04 00 0008 0002 0004");
        refuse_chunk("04 00 000c 0001 0004 0001 0004");
        refuse_chunk("05 00 0008 0001 0005");
    }
}
