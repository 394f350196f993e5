//! `I-DATA`: a message or a fragment of one that may interleave with others (RFC 8260 §2.1).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |   Type = 64   |  Res  |I|U|B|E|       Length = Variable       |
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |                              TSN                              |
//! +-------------------------------+-------------------------------+
//! |       Stream Identifier       |           Reserved            |
//! +-------------------------------+-------------------------------+
//! |                   Message Identifier (MID)                    |
//! +---------------------------------------------------------------+
//! |  Payload Protocol Identifier / Fragment Sequence Number (FSN) |
//! +---------------------------------------------------------------+
//! :                           User Data                           :
//! +---------------------------------------------------------------+
//! ```

use super::{DataFlags, data, kind};
use crate::Payload;
use crate::bytes::Reader;
use crate::error::{Header, ParseError};
use crate::seq::Serial;

/// An `I-DATA` chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IData {
    /// Transmission sequence number.
    pub tsn: Serial,
    /// Stream identifier.
    pub stream: u16,
    /// Message identifier; each stream counts ordered and unordered messages separately.
    pub mid: Serial,
    /// The payload protocol identifier in the first fragment, the fragment sequence number in the later ones;
    /// read it with [`IData::ppid`] and [`IData::fsn`].
    pub ppid_or_fsn: u32,
    /// Flags.
    pub flags: DataFlags,
    /// User data.
    pub payload: Payload,
}

impl IData {
    /// Bytes before the payload, chunk header included.
    pub const HEADER_LEN: u32 = 20;

    /// The chunk's length field: bytes without padding.
    pub const fn length(&self) -> u32 {
        Self::HEADER_LEN + self.payload.len
    }

    /// The payload protocol identifier, which only the first fragment carries.
    pub const fn ppid(&self) -> Option<u32> {
        if self.flags.contains(DataFlags::BEGINNING) { Some(self.ppid_or_fsn) } else { None }
    }

    /// The fragment sequence number; in the first fragment it is 0 and is not transmitted.
    pub const fn fsn(&self) -> u32 {
        if self.flags.contains(DataFlags::BEGINNING) { 0 } else { self.ppid_or_fsn }
    }
}

impl IData {
    pub(super) fn emit(&self, out: &mut Vec<u8>, fill: &mut dyn FnMut(Payload, &mut [u8])) {
        out.extend_from_slice(&self.tsn.0.to_be_bytes());
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.mid.0.to_be_bytes());
        out.extend_from_slice(&self.ppid_or_fsn.to_be_bytes());
        data::emit_payload(self.payload, out, fill);
    }

    pub(super) fn parse(flags: u8, value: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::SctpChunk(kind::I_DATA), value);
        let tsn = Serial(reader.u32()?);
        let stream = reader.u16()?;
        let _reserved = reader.u16()?;
        Ok(Self {
            tsn,
            stream,
            mid: Serial(reader.u32()?),
            ppid_or_fsn: reader.u32()?,
            flags: DataFlags(flags),
            payload: Payload::new(0, reader.rest().len() as u32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, refuse_chunk};

    /// A chunk with a fragment that is not the first of its message.
    const LATER: IData = IData {
        tsn: Serial(0x0102_0304),
        stream: 5,
        mid: Serial(0x0607_0809),
        ppid_or_fsn: 9,
        flags: DataFlags::END,
        payload: Payload::new(0, 1),
    };

    #[test]
    fn encoding_equals_vector() {
        check_chunk(&Chunk::IData(LATER), "40 01 0015 01020304 0005 0000 06070809 00000009 69 000000");
    }

    #[test]
    fn first_fragment_has_ppid_later_ones_have_fsn() {
        assert_eq!((LATER.ppid(), LATER.fsn()), (None, 9));
        let first = IData { flags: DataFlags::BEGINNING, ..LATER };
        assert_eq!((first.ppid(), first.fsn()), (Some(9), 0));
    }

    #[test]
    fn short_idata_is_refused() {
        refuse_chunk("40 03 0013 01020304 0005 0000 06070809 000000 00");
    }
}
