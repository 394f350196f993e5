//! `ECNE` and `CWR`: explicit congestion notification (RFC 4960 appendix A; RFC 9260 §3.2 reserves both types).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! | Type = 12, 13 |  Chunk Flags  |      Length = 8 (or 12)       |
//! +---------------+---------------+-------------------------------+
//! |                      Lowest TSN Number                        |
//! +---------------------------------------------------------------+
//! |   Number of Marked Packets (ECNE of draft-stewart only)       |
//! +---------------------------------------------------------------+
//! ```

use super::{CHUNK_HEADER_LEN, kind, tlv};
use crate::bytes::Reader;
use crate::error::{Header, ParseError, Problem};
use crate::seq::Serial;

/// An `ECNE` chunk: the receiver got a packet with a congestion mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CongestionEcho {
    /// The lowest TSN in the marked packet.
    pub lowest_tsn: Serial,
    /// Marked packets since the last `CWR`, an addition of the FreeBSD stack (draft-stewart-tsvwg-sctpecn).
    pub marked_packets: Option<u32>,
}

impl CongestionEcho {
    /// The chunk's length field, bytes.
    pub const fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + if self.marked_packets.is_some() { 8 } else { 4 }
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lowest_tsn.0.to_be_bytes());
        if let Some(packets) = self.marked_packets {
            out.extend_from_slice(&packets.to_be_bytes());
        }
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::SctpChunk(kind::CONGESTION_ECHO), value);
        let lowest_tsn = Serial(reader.u32()?);
        let marked_packets = if reader.rest().is_empty() { None } else { Some(reader.u32()?) };
        match reader.rest().len() {
            0 => Ok(Self { lowest_tsn, marked_packets }),
            more => Err(reader.error(Problem::Length(more))),
        }
    }
}

/// A `CWR` chunk: the sender has reduced its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CongestionReduced {
    /// The TSN of the `ECNE` that this chunk answers.
    pub lowest_tsn: Serial,
}

impl CongestionReduced {
    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lowest_tsn.0.to_be_bytes());
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let tsn = tlv::fixed_value(Header::SctpChunk(kind::CONGESTION_REDUCED), value)?;
        Ok(Self { lowest_tsn: Serial(u32::from_be_bytes(tsn)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, refuse_chunk};

    #[test]
    fn encodings_equal_vectors() {
        let mut echo = CongestionEcho { lowest_tsn: Serial(0x0102_0304), marked_packets: None };
        check_chunk(&Chunk::CongestionEcho(echo), "0c 00 0008 01020304");
        echo.marked_packets = Some(3);
        check_chunk(&Chunk::CongestionEcho(echo), "0c 00 000c 01020304 00000003");
        let reduced = CongestionReduced { lowest_tsn: Serial(0x0102_0304) };
        check_chunk(&Chunk::CongestionReduced(reduced), "0d 00 0008 01020304");
    }

    #[test]
    fn impossible_lengths_are_refused() {
        refuse_chunk("0c 00 0004");
        refuse_chunk("0c 00 000a 01020304 00000000");
        refuse_chunk("0c 00 0010 01020304 00000003 00000000");
        refuse_chunk("0d 00 000c 01020304 00000003");
    }
}
