//! Error causes of `ABORT`, `ERROR` and the error cause indication (RFC 9260 §3.3.10, RFC 5061 §4.3).

use super::{padded, parameter};
use crate::seq::Serial;
use core::net::IpAddr;

/// Length of a cause's header, bytes: code, length.
pub const HEADER_LEN: u32 = 4;

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
    /// Operation refused for want of resources.
    pub const RESOURCE_SHORTAGE: u16 = 0xa1;
    /// Request to delete the source address.
    pub const DELETE_SOURCE_ADDRESS: u16 = 0xa2;
    /// Association aborted by an illegal `ASCONF ACK`.
    pub const ILLEGAL_ASCONF_ACK: u16 = 0xa3;
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
    /// `INIT` or `INIT ACK` lacks parameters (§3.3.10.2): their type numbers.
    MissingParameters(Box<[u16]>),
    /// A valid cookie came too late (§3.3.10.3).
    StaleCookie {
        /// How much too late, microseconds.
        staleness_us: u32,
    },
    /// Out of resource (§3.3.10.4).
    OutOfResource,
    /// An address that cannot be used (§3.3.10.5): the whole address parameter.
    UnresolvableAddress(Box<[u8]>),
    /// A chunk of unknown type whose type asks for a report (§3.3.10.6): the whole chunk.
    UnrecognizedChunk(Box<[u8]>),
    /// A mandatory parameter has an invalid value (§3.3.10.7).
    InvalidMandatoryParameter,
    /// Parameters of unknown type whose types ask for a report (§3.3.10.8): whole, each padded but the last.
    UnrecognizedParameters(Box<[u8]>),
    /// `DATA` without user data (§3.3.10.9).
    NoUserData {
        /// The chunk's TSN.
        tsn: Serial,
    },
    /// `COOKIE ECHO` in the state SHUTDOWN-ACK-SENT (§3.3.10.10).
    CookieWhileShuttingDown,
    /// A restart that would add addresses (§3.3.10.11): the new ones.
    RestartWithNewAddresses(Vec<IpAddr>),
    /// The upper layer aborted (§3.3.10.12): its reason.
    UserInitiatedAbort(Box<[u8]>),
    /// Protocol violation (§3.3.10.13): free information.
    ProtocolViolation(Box<[u8]>),
    /// Request to delete the last remaining address (RFC 5061 §4.3.1): the request's parameter.
    DeleteLastAddress(Box<[u8]>),
    /// Operation refused for want of resources (RFC 5061 §4.3.2): the request's parameter.
    ResourceShortage(Box<[u8]>),
    /// Request to delete the packet's source address (RFC 5061 §4.3.3): the request's parameter.
    DeleteSourceAddress(Box<[u8]>),
    /// `ASCONF ACK` with an unexpected serial number (RFC 5061 §4.3.4).
    IllegalAsconfAck,
    /// Request refused, no authorisation (RFC 5061 §4.3.5): the request's parameter.
    NoAuthorization(Box<[u8]>),
    /// Any other code, kept as it came.
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
            Self::InvalidMandatoryParameter => kind::INVALID_MANDATORY_PARAMETER,
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
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// The cause's length field: header and value in bytes, without the padding behind them.
    pub fn length(&self) -> u32 {
        HEADER_LEN
            + match self {
                Self::OutOfResource
                | Self::InvalidMandatoryParameter
                | Self::CookieWhileShuttingDown
                | Self::IllegalAsconfAck => 0,
                Self::InvalidStream { .. } | Self::StaleCookie { .. } | Self::NoUserData { .. } => 4,
                Self::MissingParameters(kinds) => 4 + 2 * kinds.len() as u32,
                Self::RestartWithNewAddresses(addresses) => {
                    addresses.iter().map(parameter::address_length).sum()
                }
                Self::UnresolvableAddress(bytes)
                | Self::UnrecognizedChunk(bytes)
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
    let Some((last, rest)) = causes.split_last() else { return 0 };
    rest.iter().map(|cause| padded(cause.length())).sum::<u32>() + last.length()
}
