//! `ASCONF` and `ASCONF ACK`: address reconfiguration (RFC 5061 §4.1).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |  Type = 0xC1  |  Chunk Flags  |         Chunk Length          |
//! +---------------+---------------+-------------------------------+
//! |                        Sequence Number                        |
//! +---------------------------------------------------------------+
//! :            Address Parameter (ASCONF alone)                   :
//! :            ASCONF Parameters #1 to #N                         :
//! +---------------------------------------------------------------+
//!
//! ASCONF ACK: Type = 0x80, no Address Parameter, Responses in place of the ASCONF Parameters.
//! ```

use super::parameter::{self, Parameter};
use super::{CHUNK_HEADER_LEN, address, kind};
use crate::bytes::Reader;
use crate::error::{Header, ParseError, Problem};
use crate::seq::Serial;
use core::net::IpAddr;

/// An `ASCONF` chunk: requests, carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asconf {
    /// Serial number; the first one is the sender's initial TSN.
    pub serial: Serial,
    /// An address of the sender, by which the receiver finds the association.
    pub address: IpAddr,
    /// Requests: [`Parameter::AddAddress`], [`Parameter::DeleteAddress`], [`Parameter::SetPrimary`].
    pub parameters: Vec<Parameter>,
}

impl Asconf {
    /// The chunk's length field: bytes without the padding of the last parameter.
    pub fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + 4 + address::length(&self.address) + parameter::list_length(&self.parameters)
    }
}

/// An `ASCONF ACK` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsconfAck {
    /// The serial number of the `ASCONF` answered.
    pub serial: Serial,
    /// Answers: [`Parameter::Success`], [`Parameter::ErrorCause`]; a request without an answer succeeded.
    pub parameters: Vec<Parameter>,
}

impl AsconfAck {
    /// The chunk's length field: bytes without the padding of the last parameter.
    pub fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + 4 + parameter::list_length(&self.parameters)
    }
}

impl Asconf {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.serial.0.to_be_bytes());
        Parameter::from(self.address).emit(out);
        parameter::emit_list(&self.parameters, out);
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::SctpChunk(kind::ASCONF), value);
        let serial = Serial(reader.u32()?);
        let mut parameters = parameter::parse_list(value, &reader)?;
        let address = parameters.first().and_then(Parameter::address);
        let address = address.ok_or_else(|| reader.error(Problem::Value(0)))?;
        parameters.remove(0);
        Ok(Self { serial, address, parameters })
    }
}

impl AsconfAck {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.serial.0.to_be_bytes());
        parameter::emit_list(&self.parameters, out);
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::SctpChunk(kind::ASCONF_ACK), value);
        let serial = Serial(reader.u32()?);
        Ok(Self { serial, parameters: parameter::parse_list(value, &reader)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::testing::{check_chunk, refuse_chunk};
    use crate::sctp::{Cause, Chunk};
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn requests_are_encoded() {
        let asconf = Asconf {
            serial: Serial(0x0102_0304),
            address: Ipv4Addr::new(10, 0, 0, 1).into(),
            parameters: vec![
                Parameter::AddAddress { correlation: 1, address: Ipv6Addr::LOCALHOST.into() },
                Parameter::DeleteAddress { correlation: 2, address: Ipv4Addr::new(10, 0, 0, 2).into() },
                Parameter::SetPrimary { correlation: 3, address: Ipv4Addr::UNSPECIFIED.into() },
            ],
        };
        check_chunk(
            &Chunk::Asconf(Box::new(asconf)),
            "c1 00 004c 01020304 0005 0008 0a000001 \
             c001 001c 00000001 0006 0014 00000000000000000000000000000001 \
             c002 0010 00000002 0005 0008 0a000002 c004 0010 00000003 0005 0008 00000000",
        );
    }

    #[test]
    fn responses_are_encoded() {
        let causes = vec![Cause::NoAuthorization(Box::new([])), Cause::IllegalAsconfAck];
        let ack = AsconfAck {
            serial: Serial(5),
            parameters: vec![
                Parameter::Success { correlation: 1 },
                Parameter::ErrorCause { correlation: 2, causes },
            ],
        };
        check_chunk(
            &Chunk::AsconfAck(ack),
            "80 00 0020 00000005 c005 0008 00000001 c003 0010 00000002 00a4 0004 00a3 0004",
        );
        check_chunk(&Chunk::AsconfAck(AsconfAck::default()), "80 00 0008 00000000");
    }

    #[test]
    fn address_must_be_the_first_parameter() {
        refuse_chunk("c1 00 0008 01020304");
        refuse_chunk("c1 00 0010 01020304 c005 0008 00000001");
    }
}
