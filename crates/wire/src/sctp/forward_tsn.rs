//! `FORWARD TSN` (RFC 3758 §3.2) and `I-FORWARD-TSN` (RFC 8260 §2.3.1): the sender abandons some TSNs.
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |  Type = 192   |  Flags = 0    |            Length             |
//! +---------------+---------------+-------------------------------+
//! |                    New Cumulative TSN                         |
//! +-------------------------------+-------------------------------+
//! :           Stream              |        Stream Sequence        :
//! +-------------------------------+-------------------------------+
//!
//! +---------------+---------------+-------------------------------+
//! |  Type = 194   |  Flags = 0    |            Length             |
//! +---------------+---------------+-------------------------------+
//! |                    New Cumulative TSN                         |
//! +-------------------------------+-----------------------------+-+
//! :      Stream Identifier        |          Reserved           |U|
//! :                     Message Identifier                        :
//! +---------------------------------------------------------------+
//! ```

use super::{CHUNK_HEADER_LEN, kind};
use crate::bytes::Reader;
use crate::error::{Header, ParseError};
use crate::seq::Serial;

/// An entry: the highest sequence number that was abandoned among the ordered messages of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number.
    pub ssn: u16,
}

/// A `FORWARD TSN` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardTsn {
    /// The new cumulative TSN: the receiver advances its cumulative TSN to this value.
    pub cumulative_tsn: Serial,
    /// Streams with abandoned ordered messages.
    pub skipped: Vec<Skipped>,
}

impl ForwardTsn {
    /// Bytes of an entry of the list.
    pub const ENTRY_LEN: u32 = 4;

    /// The chunk's length field, bytes; always a multiple of 4.
    pub const fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + 4 + Self::ENTRY_LEN * self.skipped.len() as u32
    }
}

/// The last abandoned message of a stream; ordered and unordered messages have separate entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedMessage {
    /// Stream identifier.
    pub stream: u16,
    /// True for an unordered message.
    pub unordered: bool,
    /// Message identifier.
    pub mid: Serial,
}

/// An `I-FORWARD-TSN` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IForwardTsn {
    /// The new cumulative TSN: the receiver advances its cumulative TSN to this value.
    pub cumulative_tsn: Serial,
    /// Streams with abandoned messages.
    pub skipped: Vec<SkippedMessage>,
}

impl IForwardTsn {
    /// Bytes of an entry of the list.
    pub const ENTRY_LEN: u32 = 8;

    /// The chunk's length field, bytes; always a multiple of 4.
    pub const fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + 4 + Self::ENTRY_LEN * self.skipped.len() as u32
    }
}

impl ForwardTsn {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.cumulative_tsn.0.to_be_bytes());
        for skipped in &self.skipped {
            out.extend_from_slice(&skipped.stream.to_be_bytes());
            out.extend_from_slice(&skipped.ssn.to_be_bytes());
        }
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::SctpChunk(kind::FORWARD_TSN), value);
        let cumulative_tsn = Serial(reader.u32()?);
        let mut skipped = Vec::new();
        while !reader.rest().is_empty() {
            skipped.push(Skipped { stream: reader.u16()?, ssn: reader.u16()? });
        }
        Ok(Self { cumulative_tsn, skipped })
    }
}

impl IForwardTsn {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.cumulative_tsn.0.to_be_bytes());
        for skipped in &self.skipped {
            out.extend_from_slice(&skipped.stream.to_be_bytes());
            out.extend_from_slice(&[0, skipped.unordered.into()]);
            out.extend_from_slice(&skipped.mid.0.to_be_bytes());
        }
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::SctpChunk(kind::I_FORWARD_TSN), value);
        let cumulative_tsn = Serial(reader.u32()?);
        let mut skipped = Vec::new();
        while !reader.rest().is_empty() {
            skipped.push(SkippedMessage {
                stream: reader.u16()?,
                unordered: reader.u16()? & 1 != 0,
                mid: Serial(reader.u32()?),
            });
        }
        Ok(Self { cumulative_tsn, skipped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, refuse_chunk};

    #[test]
    fn encodings_equal_vectors() {
        let cumulative_tsn = Serial(0x0102_0304);
        let forward = ForwardTsn { cumulative_tsn, skipped: vec![Skipped { stream: 5, ssn: 6 }] };
        check_chunk(&Chunk::ForwardTsn(forward), "c0 00 000c 01020304 0005 0006");
        let message = |unordered| SkippedMessage { stream: 5, unordered, mid: Serial(7) };
        let forward = IForwardTsn { cumulative_tsn, skipped: vec![message(false), message(true)] };
        check_chunk(
            &Chunk::IForwardTsn(forward),
            "c2 00 0018 01020304 0005 0000 00000007 0005 0001 00000007",
        );
    }

    #[test]
    fn truncated_entry_is_refused() {
        refuse_chunk("c0 00 000a 01020304 0005 0000");
        refuse_chunk("c0 00 0006 0102 0000");
        refuse_chunk("c2 00 000c 01020304 0005 0000");
    }
}
