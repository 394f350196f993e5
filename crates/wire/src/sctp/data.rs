//! `DATA`: a message or a fragment of one (RFC 9260 §3.3.1).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |   Type = 0    |  Res  |I|U|B|E|            Length             |
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |                              TSN                              |
//! +-------------------------------+-------------------------------+
//! |      Stream Identifier S      |   Stream Sequence Number n    |
//! +-------------------------------+-------------------------------+
//! |                  Payload Protocol Identifier                  |
//! +---------------------------------------------------------------+
//! :                           User Data                           :
//! +---------------------------------------------------------------+
//! ```

use super::{CHUNK_HEADER_LEN, kind};
use crate::Payload;
use crate::bits::bit_set;
use crate::bytes::Reader;
use crate::error::{Header, ParseError};
use crate::seq::Serial;

/// The flags of `DATA` and `I-DATA`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataFlags(pub u8);

impl DataFlags {
    /// E: the last fragment of a message.
    pub const END: Self = Self(0x01);
    /// B: the first fragment of a message.
    pub const BEGINNING: Self = Self(0x02);
    /// U: the message is delivered without regard to its stream's order.
    pub const UNORDERED: Self = Self(0x04);
    /// I: the sender requests an immediate SACK.
    pub const IMMEDIATE: Self = Self(0x08);
    /// B and E: a message that was not fragmented.
    pub const WHOLE: Self = Self(0x03);
}

bit_set!(DataFlags);

/// A `DATA` chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Transmission sequence number.
    pub tsn: Serial,
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number, the same in all fragments of a message; ignored in unordered messages.
    pub ssn: u16,
    /// Payload protocol identifier, which the application sets.
    pub ppid: u32,
    /// Flags.
    pub flags: DataFlags,
    /// User data. An empty one is a protocol violation (RFC 9260 §6.2) that the receiver must be able to
    /// detect.
    pub payload: Payload,
}

impl Data {
    /// Bytes before the payload, chunk header included.
    pub const HEADER_LEN: u32 = 16;

    /// The chunk's length field: bytes without padding.
    pub const fn length(&self) -> u32 {
        Self::HEADER_LEN + self.payload.len
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>, fill: &mut dyn FnMut(Payload, &mut [u8])) {
        let mut header = [0; (Self::HEADER_LEN - CHUNK_HEADER_LEN) as usize];
        header[..4].copy_from_slice(&self.tsn.0.to_be_bytes());
        header[4..6].copy_from_slice(&self.stream.to_be_bytes());
        header[6..8].copy_from_slice(&self.ssn.to_be_bytes());
        header[8..].copy_from_slice(&self.ppid.to_be_bytes());
        out.extend_from_slice(&header);
        emit_payload(self.payload, out, fill);
    }

    pub(super) fn parse(flags: u8, value: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::SctpChunk(kind::DATA), value);
        Ok(Self {
            tsn: Serial(reader.u32()?),
            stream: reader.u16()?,
            ssn: reader.u16()?,
            ppid: reader.u32()?,
            flags: DataFlags(flags),
            payload: Payload::new(0, reader.rest().len() as u32),
        })
    }
}

/// Appends the bytes of a payload, which `fill` writes.
pub(super) fn emit_payload(payload: Payload, out: &mut Vec<u8>, fill: &mut dyn FnMut(Payload, &mut [u8])) {
    let start = out.len();
    out.resize(start + payload.len as usize, 0);
    fill(payload, &mut out[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, hex, refuse_chunk};

    #[test]
    fn encoding_equals_vector() {
        let data = Data {
            tsn: Serial(0x0102_0304),
            stream: 5,
            ssn: 6,
            ppid: 7,
            flags: DataFlags::WHOLE | DataFlags::UNORDERED,
            payload: Payload::new(0, 3),
        };
        // The pattern's first bytes are part of the vector: a capture must not change between versions.
        check_chunk(&Chunk::Data(data), "00 07 0013 01020304 0005 0006 00000007 69636d 00");
    }

    #[test]
    fn data_chunk_without_user_data_is_encoded() {
        let data = Data { tsn: Serial(u32::MAX), flags: DataFlags::IMMEDIATE, ..Data::default() };
        check_chunk(&Chunk::Data(data), "00 08 0010 ffffffff 0000 0000 00000000");
    }

    #[test]
    fn short_data_is_refused() {
        refuse_chunk("00 03 000f 01020304 0005 0006 000000 00");
    }

    #[test]
    fn caller_supplies_payload_bytes() {
        let data = Data { payload: Payload::new(40, 2), ..Data::default() };
        let mut out = Vec::new();
        Chunk::Data(data).emit(&mut out, &mut |payload, bytes| {
            assert_eq!(payload.offset, 40);
            bytes.copy_from_slice(b"hi");
        });
        assert_eq!(out, hex("00 00 0012 00000000 0000 0000 00000000 6869 0000"));
    }
}
