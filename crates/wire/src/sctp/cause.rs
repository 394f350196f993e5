//! Error causes of `ABORT`, `ERROR` and the error cause indication (RFC 9260 §3.3.10, RFC 5061 §4.3).

use super::{HmacId, address, tlv};
use crate::bytes::Reader;
use crate::error::{Header, ParseError};
use crate::seq::Serial;
use core::net::IpAddr;

/// Length of a cause's header, bytes: code, length.
pub const HEADER_LEN: u32 = tlv::HEADER_LEN;

/// Cause codes.
pub mod kind {
    /// Invalid stream identifier.
    pub const INVALID_STREAM: u16 = 1;
    /// Missing mandatory parameter.
    pub const MISSING_PARAMETERS: u16 = 2;
    /// Stale cookie.
    pub const STALE_COOKIE: u16 = 3;
    /// Out of resource.
    pub const OUT_OF_RESOURCE: u16 = 4;
    /// Unresolvable address.
    pub const UNRESOLVABLE_ADDRESS: u16 = 5;
    /// Unrecognised chunk type.
    pub const UNRECOGNIZED_CHUNK: u16 = 6;
    /// Invalid mandatory parameter.
    pub const INVALID_MANDATORY_PARAMETER: u16 = 7;
    /// Unrecognised parameters.
    pub const UNRECOGNIZED_PARAMETERS: u16 = 8;
    /// No user data.
    pub const NO_USER_DATA: u16 = 9;
    /// Cookie received while shutting down.
    pub const COOKIE_WHILE_SHUTTING_DOWN: u16 = 10;
    /// Restart of an association with new addresses.
    pub const RESTART_WITH_NEW_ADDRESSES: u16 = 11;
    /// User-initiated abort.
    pub const USER_INITIATED_ABORT: u16 = 12;
    /// Protocol violation.
    pub const PROTOCOL_VIOLATION: u16 = 13;
    /// Request to delete the last remaining address.
    pub const DELETE_LAST_ADDRESS: u16 = 0xa0;
    /// Operation refused due to a resource shortage.
    pub const RESOURCE_SHORTAGE: u16 = 0xa1;
    /// Request to delete the source address.
    pub const DELETE_SOURCE_ADDRESS: u16 = 0xa2;
    /// Association aborted by an illegal `ASCONF ACK`.
    pub const ILLEGAL_ASCONF_ACK: u16 = 0xa3;
    /// Message authentication code of an unknown kind.
    pub const UNSUPPORTED_HMAC: u16 = 0x0105;
    /// Request refused, no authorisation.
    pub const NO_AUTHORIZATION: u16 = 0xa4;
}

/// An error cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `DATA` on a stream that does not exist (§3.3.10.1).
    InvalidStream {
        /// The stream identifier.
        stream: u16,
    },
    /// `INIT` or `INIT ACK` lacks these parameters (§3.3.10.2), given by type number.
    MissingParameters(Box<[u16]>),
    /// A valid cookie arrived too late (§3.3.10.3).
    StaleCookie {
        /// Staleness, microseconds.
        staleness_us: u32,
    },
    /// Out of resource (§3.3.10.4).
    OutOfResource,
    /// An address that cannot be used (§3.3.10.5): the whole address parameter.
    UnresolvableAddress(Box<[u8]>),
    /// A chunk of unknown type whose type requests a report (§3.3.10.6): the whole chunk, as
    /// [`Chunk::to_bytes`](super::Chunk::to_bytes) makes it.
    UnrecognizedChunk(Box<[u8]>),
    /// A mandatory parameter has an invalid value (§3.3.10.7). The RFC defines no content; other
    /// implementations add a text.
    InvalidMandatoryParameter(Box<[u8]>),
    /// Parameters of unknown type whose types request a report (§3.3.10.8): whole;
    /// [`parameter::to_bytes`](super::parameter::to_bytes) makes them.
    UnrecognizedParameters(Box<[u8]>),
    /// `DATA` without user data (§3.3.10.9).
    NoUserData {
        /// The chunk's TSN.
        tsn: Serial,
    },
    /// `COOKIE ECHO` in the state SHUTDOWN-ACK-SENT (§3.3.10.10).
    CookieWhileShuttingDown,
    /// A restart that would add these addresses (§3.3.10.11).
    RestartWithNewAddresses(Vec<IpAddr>),
    /// The upper layer aborted the association for this reason (§3.3.10.12).
    UserInitiatedAbort(Box<[u8]>),
    /// Protocol violation (§3.3.10.13): free information.
    ProtocolViolation(Box<[u8]>),
    /// Request to delete the last remaining address (RFC 5061 §4.3.1): the request's parameter.
    DeleteLastAddress(Box<[u8]>),
    /// Operation refused due to a resource shortage (RFC 5061 §4.3.2): the request's parameter.
    ResourceShortage(Box<[u8]>),
    /// Request to delete the packet's source address (RFC 5061 §4.3.3): the request's parameter.
    DeleteSourceAddress(Box<[u8]>),
    /// `ASCONF ACK` with an unexpected serial number (RFC 5061 §4.3.4).
    IllegalAsconfAck,
    /// Request refused, no authorisation (RFC 5061 §4.3.5): the request's parameter.
    NoAuthorization(Box<[u8]>),
    /// `AUTH` with this algorithm, which was not offered (RFC 4895 §4.1).
    UnsupportedHmac(HmacId),
    /// Any other code, kept unchanged.
    Unknown {
        /// Cause code.
        kind: u16,
        /// Value, without header and padding.
        value: Box<[u8]>,
    },
}

impl Cause {
    /// The cause code, as in [`kind`].
    pub const fn kind(&self) -> u16 {
        match self {
            Self::InvalidStream { .. } => kind::INVALID_STREAM,
            Self::MissingParameters(_) => kind::MISSING_PARAMETERS,
            Self::StaleCookie { .. } => kind::STALE_COOKIE,
            Self::OutOfResource => kind::OUT_OF_RESOURCE,
            Self::UnresolvableAddress(_) => kind::UNRESOLVABLE_ADDRESS,
            Self::UnrecognizedChunk(_) => kind::UNRECOGNIZED_CHUNK,
            Self::InvalidMandatoryParameter(_) => kind::INVALID_MANDATORY_PARAMETER,
            Self::UnrecognizedParameters(_) => kind::UNRECOGNIZED_PARAMETERS,
            Self::NoUserData { .. } => kind::NO_USER_DATA,
            Self::CookieWhileShuttingDown => kind::COOKIE_WHILE_SHUTTING_DOWN,
            Self::RestartWithNewAddresses(_) => kind::RESTART_WITH_NEW_ADDRESSES,
            Self::UserInitiatedAbort(_) => kind::USER_INITIATED_ABORT,
            Self::ProtocolViolation(_) => kind::PROTOCOL_VIOLATION,
            Self::DeleteLastAddress(_) => kind::DELETE_LAST_ADDRESS,
            Self::ResourceShortage(_) => kind::RESOURCE_SHORTAGE,
            Self::DeleteSourceAddress(_) => kind::DELETE_SOURCE_ADDRESS,
            Self::IllegalAsconfAck => kind::ILLEGAL_ASCONF_ACK,
            Self::NoAuthorization(_) => kind::NO_AUTHORIZATION,
            Self::UnsupportedHmac(_) => kind::UNSUPPORTED_HMAC,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// The cause's length field: header and value in bytes, without the padding behind them.
    pub fn length(&self) -> u32 {
        HEADER_LEN
            + match self {
                Self::OutOfResource | Self::CookieWhileShuttingDown | Self::IllegalAsconfAck => 0,
                Self::UnsupportedHmac(_) => 2,
                Self::InvalidStream { .. } | Self::StaleCookie { .. } | Self::NoUserData { .. } => 4,
                Self::MissingParameters(kinds) => 4 + 2 * kinds.len() as u32,
                Self::RestartWithNewAddresses(addresses) => addresses.iter().map(address::length).sum(),
                Self::UnresolvableAddress(bytes)
                | Self::UnrecognizedChunk(bytes)
                | Self::InvalidMandatoryParameter(bytes)
                | Self::UnrecognizedParameters(bytes)
                | Self::UserInitiatedAbort(bytes)
                | Self::ProtocolViolation(bytes)
                | Self::DeleteLastAddress(bytes)
                | Self::ResourceShortage(bytes)
                | Self::DeleteSourceAddress(bytes)
                | Self::NoAuthorization(bytes)
                | Self::Unknown { value: bytes, .. } => bytes.len() as u32,
            }
    }
}

/// Bytes that a list of causes takes, without the padding of the last.
pub(super) fn list_length(causes: &[Cause]) -> u32 {
    tlv::list_length(causes.iter().map(Cause::length))
}

pub(super) fn emit_list(causes: &[Cause], out: &mut Vec<u8>) {
    tlv::emit_list(causes, out, Cause::emit);
}

pub(super) fn parse_list(bytes: &[u8]) -> Result<Vec<Cause>, ParseError> {
    tlv::parse_list(bytes, Cause::parse)
}

impl Cause {
    /// Appends the cause without padding.
    fn emit(&self, out: &mut Vec<u8>) {
        tlv::emit_header(self.kind(), self.length(), out);
        match self {
            Self::OutOfResource | Self::CookieWhileShuttingDown | Self::IllegalAsconfAck => {}
            Self::InvalidStream { stream } => {
                out.extend_from_slice(&stream.to_be_bytes());
                out.extend_from_slice(&[0; 2]);
            }
            Self::StaleCookie { staleness_us: number } | Self::NoUserData { tsn: Serial(number) } => {
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::UnsupportedHmac(algorithm) => out.extend_from_slice(&algorithm.0.to_be_bytes()),
            Self::MissingParameters(kinds) => {
                out.extend_from_slice(&(kinds.len() as u32).to_be_bytes());
                out.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
            }
            Self::RestartWithNewAddresses(addresses) => {
                for &address in addresses {
                    address::emit(address, out);
                }
            }
            Self::UnresolvableAddress(bytes)
            | Self::UnrecognizedChunk(bytes)
            | Self::InvalidMandatoryParameter(bytes)
            | Self::UnrecognizedParameters(bytes)
            | Self::UserInitiatedAbort(bytes)
            | Self::ProtocolViolation(bytes)
            | Self::DeleteLastAddress(bytes)
            | Self::ResourceShortage(bytes)
            | Self::DeleteSourceAddress(bytes)
            | Self::NoAuthorization(bytes)
            | Self::Unknown { value: bytes, .. } => out.extend_from_slice(bytes),
        }
    }

    /// Reads the value of a cause.
    fn parse(kind: u16, value: &[u8]) -> Result<Self, ParseError> {
        let header = Header::SctpParameter(kind);
        let number = || tlv::fixed_value(header, value).map(u32::from_be_bytes);
        let empty = |cause| tlv::fixed_value::<0>(header, value).map(|_| cause);
        Ok(match kind {
            kind::INVALID_STREAM => Self::InvalidStream { stream: (number()? >> 16) as u16 },
            kind::MISSING_PARAMETERS => Self::MissingParameters(parse_missing(value)?),
            kind::STALE_COOKIE => Self::StaleCookie { staleness_us: number()? },
            kind::OUT_OF_RESOURCE => empty(Self::OutOfResource)?,
            kind::UNRESOLVABLE_ADDRESS => Self::UnresolvableAddress(value.into()),
            kind::UNRECOGNIZED_CHUNK => Self::UnrecognizedChunk(value.into()),
            kind::INVALID_MANDATORY_PARAMETER => Self::InvalidMandatoryParameter(value.into()),
            kind::UNRECOGNIZED_PARAMETERS => Self::UnrecognizedParameters(value.into()),
            kind::NO_USER_DATA => Self::NoUserData { tsn: Serial(number()?) },
            kind::COOKIE_WHILE_SHUTTING_DOWN => empty(Self::CookieWhileShuttingDown)?,
            kind::RESTART_WITH_NEW_ADDRESSES => Self::RestartWithNewAddresses(address::parse_list(value)?),
            kind::USER_INITIATED_ABORT => Self::UserInitiatedAbort(value.into()),
            kind::PROTOCOL_VIOLATION => Self::ProtocolViolation(value.into()),
            kind::DELETE_LAST_ADDRESS => Self::DeleteLastAddress(value.into()),
            kind::RESOURCE_SHORTAGE => Self::ResourceShortage(value.into()),
            kind::DELETE_SOURCE_ADDRESS => Self::DeleteSourceAddress(value.into()),
            kind::ILLEGAL_ASCONF_ACK => empty(Self::IllegalAsconfAck)?,
            kind::NO_AUTHORIZATION => Self::NoAuthorization(value.into()),
            kind::UNSUPPORTED_HMAC => {
                Self::UnsupportedHmac(HmacId(u16::from_be_bytes(tlv::fixed_value(header, value)?)))
            }
            _ => Self::Unknown { kind, value: value.into() },
        })
    }
}

/// Reads the types of missing parameters, preceded by their number.
fn parse_missing(value: &[u8]) -> Result<Box<[u16]>, ParseError> {
    let header = Header::SctpParameter(kind::MISSING_PARAMETERS);
    let mut reader = Reader::new(header, value);
    let count = reader.u32()? as usize;
    match reader.rest().as_chunks() {
        (kinds, []) if kinds.len() == count => {
            Ok(kinds.iter().map(|&kind| u16::from_be_bytes(kind)).collect())
        }
        _ => Err(tlv::wrong_length(header, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::parameter::Parameter;
    use crate::sctp::testing::hex;
    use crate::sctp::{Chunk, Unknown};
    use core::net::{Ipv4Addr, Ipv6Addr};

    /// Checks encoding and parsing of one cause.
    fn check(cause: &Cause, bytes: &str) {
        let bytes = hex(bytes);
        let mut out = Vec::new();
        cause.emit(&mut out);
        assert_eq!(out, bytes, "{cause:?}");
        assert_eq!(cause.length() as usize, bytes.len());
        assert_eq!(parse_list(&bytes).unwrap(), std::slice::from_ref(cause));
        for cut in 1..bytes.len() {
            assert!(parse_list(&bytes[..cut]).is_err(), "{cause:?} cut at {cut}");
        }
    }

    #[test]
    fn encodings_equal_vectors() {
        check(&Cause::InvalidStream { stream: 0x0102 }, "0001 0008 0102 0000");
        check(&Cause::MissingParameters(Box::new([7, 5, 6])), "0002 000e 00000003 0007 0005 0006");
        check(&Cause::StaleCookie { staleness_us: 1_000_000 }, "0003 0008 000f4240");
        check(&Cause::OutOfResource, "0004 0004");
        let host = Parameter::HostName(b"nowhere\0".as_slice().into());
        check(&Cause::UnresolvableAddress(host.to_bytes()), "0005 0010 000b 000c 6e6f776865726500");
        let chunk = Chunk::Unknown(Unknown { kind: 0x7f, flags: 1, value: Box::new([2]) });
        check(&Cause::UnrecognizedChunk(chunk.to_bytes()), "0006 0009 7f01 0005 02");
        check(&Cause::InvalidMandatoryParameter(Box::new([])), "0007 0004");
        // usrsctp may add a text to the cause.
        check(&Cause::InvalidMandatoryParameter(b"why".as_slice().into()), "0007 0007 776879");
        let unknown = Parameter::Unknown { kind: 0x4001, value: Box::new([]) };
        check(&Cause::UnrecognizedParameters(unknown.to_bytes()), "0008 0008 4001 0004");
        check(&Cause::NoUserData { tsn: Serial(0x0102_0304) }, "0009 0008 01020304");
        check(&Cause::CookieWhileShuttingDown, "000a 0004");
        let addresses = vec![Ipv4Addr::new(192, 0, 2, 1).into(), Ipv6Addr::LOCALHOST.into()];
        check(
            &Cause::RestartWithNewAddresses(addresses),
            "000b 0020 0005 0008 c0000201 0006 0014 00000000000000000000000000000001",
        );
        check(&Cause::UserInitiatedAbort(Box::new([])), "000c 0004");
        check(&Cause::ProtocolViolation(b"no".as_slice().into()), "000d 0006 6e6f");
    }

    #[test]
    fn address_reconfiguration_equals_vectors() {
        let address = Ipv4Addr::new(10, 0, 0, 1).into();
        let request = Parameter::DeleteAddress { correlation: 2, address }.to_bytes();
        let written = "c002 0010 00000002 0005 0008 0a000001";
        check(&Cause::DeleteLastAddress(request.clone()), &format!("00a0 0014 {written}"));
        check(&Cause::ResourceShortage(request.clone()), &format!("00a1 0014 {written}"));
        check(&Cause::DeleteSourceAddress(request.clone()), &format!("00a2 0014 {written}"));
        check(&Cause::IllegalAsconfAck, "00a3 0004");
        check(&Cause::NoAuthorization(request), &format!("00a4 0014 {written}"));
        check(&Cause::UnsupportedHmac(HmacId(7)), "0105 0006 0007");
        check(&Cause::Unknown { kind: 0x0106, value: Box::new([1]) }, "0106 0005 01");
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for bytes in [
            "0001 0006 0102 0000",
            "0002 000a 00000002 0007 0000",
            "0002 000a 00000000 0007 0000",
            "0002 0009 00000000 07 000000",
            "0002 0006 0000 0000",
            "0003 0004",
            "0004 0008 00000000",
            "0009 000c 00000000 00000000",
            "000b 0008 000b 0004",
            "000b 0008 0005 0008",
            "00a3 0005 00 000000",
        ] {
            assert!(parse_list(&hex(bytes)).is_err(), "{bytes}");
        }
    }
}
