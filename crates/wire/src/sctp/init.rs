//! `INIT` and `INIT ACK`: the parameters of a new association (RFC 9260 §3.3.2, §3.3.3).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! | Type = 1 or 2 |  Chunk Flags  |         Chunk Length          |
//! +---------------+---------------+-------------------------------+
//! |                         Initiate Tag                          |
//! +---------------------------------------------------------------+
//! |          Advertised Receiver Window Credit (a_rwnd)           |
//! +-------------------------------+-------------------------------+
//! |  Number of Outbound Streams   |   Number of Inbound Streams   |
//! +-------------------------------+-------------------------------+
//! |                          Initial TSN                          |
//! +---------------------------------------------------------------+
//! :                          Parameters                           :
//! +---------------------------------------------------------------+
//! ```

use super::parameter::{self, Parameter};
use crate::bytes::Reader;
use crate::error::{Header, ParseError};
use crate::seq::Serial;

/// An `INIT` or `INIT ACK` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Init {
    /// The verification tag that the other side must write into its packets; 0 is invalid.
    pub initiate_tag: u32,
    /// Receive window, bytes.
    pub a_rwnd: u32,
    /// Outgoing streams that the sender requests; 0 is invalid.
    pub outbound_streams: u16,
    /// Incoming streams that the sender supports; 0 is invalid.
    pub inbound_streams: u16,
    /// The first TSN that the sender will use.
    pub initial_tsn: Serial,
    /// Parameters, in order.
    pub parameters: Vec<Parameter>,
}

impl Init {
    /// Bytes before the parameters, chunk header included.
    pub const HEADER_LEN: u32 = 20;

    /// The chunk's length field: bytes without the padding of the last parameter.
    pub fn length(&self) -> u32 {
        Self::HEADER_LEN + parameter::list_length(&self.parameters)
    }
}

impl Init {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.initiate_tag.to_be_bytes());
        out.extend_from_slice(&self.a_rwnd.to_be_bytes());
        out.extend_from_slice(&self.outbound_streams.to_be_bytes());
        out.extend_from_slice(&self.inbound_streams.to_be_bytes());
        out.extend_from_slice(&self.initial_tsn.0.to_be_bytes());
        parameter::emit_list(&self.parameters, out);
    }

    pub(super) fn parse(kind: u8, value: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::SctpChunk(kind), value);
        Ok(Self {
            initiate_tag: reader.u32()?,
            a_rwnd: reader.u32()?,
            outbound_streams: reader.u16()?,
            inbound_streams: reader.u16()?,
            initial_tsn: Serial(reader.u32()?),
            parameters: parameter::parse_list(value, &reader)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::testing::{check_chunk, refuse_chunk};
    use crate::sctp::{AddressType, Chunk, kind};

    fn init(parameters: Vec<Parameter>) -> Init {
        Init {
            initiate_tag: 0x0102_0304,
            a_rwnd: 0x0001_0000,
            outbound_streams: 10,
            inbound_streams: 0xffff,
            initial_tsn: Serial(0x0506_0708),
            parameters,
        }
    }

    #[test]
    fn init_without_parameters_round_trips() {
        check_chunk(&Chunk::Init(init(vec![])), "01 00 0014 01020304 00010000 000a ffff 05060708");
    }

    #[test]
    fn length_excludes_padding_of_last_parameter() {
        let parameters = vec![
            Parameter::SupportedExtensions(Box::new([kind::NR_SACK])),
            Parameter::SupportedAddressTypes(Box::new([AddressType::IPV4])),
        ];
        check_chunk(
            &Chunk::InitAck(init(parameters)),
            "02 00 0022 01020304 00010000 000a ffff 05060708 8008 0005 10000000 000c 0006 0005 0000",
        );
    }

    #[test]
    fn length_with_last_padding_is_accepted() {
        let bytes =
            crate::sctp::testing::hex("01 00 001c 01020304 00010000 000a ffff 05060708 000c 0006 0005 0000");
        let (chunk, rest) = Chunk::parse(&bytes).unwrap().unwrap();
        let expected = init(vec![Parameter::SupportedAddressTypes(Box::new([AddressType::IPV4]))]);
        assert_eq!((chunk, rest), (Chunk::Init(expected), &[][..]));
    }

    #[test]
    fn impossible_lengths_are_refused() {
        refuse_chunk("01 00 0012 01020304 00010000 000a ffff 0506 0000");
        // A parameter shorter than its header, longer than the chunk, and cut in its header.
        refuse_chunk("01 00 0018 01020304 00010000 000a ffff 05060708 000c 0003");
        refuse_chunk("01 00 0018 01020304 00010000 000a ffff 05060708 000c 0006 0005 0000");
        refuse_chunk("01 00 0016 01020304 00010000 000a ffff 05060708 000c 0004");
    }
}
