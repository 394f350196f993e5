//! TLVs of messages (RFC 8803 §6.2).

use super::Malformed;
use super::option::{self, TcpOption};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A TLV of a message. Its encoding is `| type | length in words | ... |`, padded with zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tlv {
    /// Query of a client for the TCP extensions that the converter supports (§6.2.3).
    Info,
    /// Request of a client for a connection (§6.2.5). An IPv4 address is encoded as an IPv4-mapped IPv6 address.
    ///
    /// ```text
    /// |     10        |    length     |             port              |
    /// |                     address (16 bytes)                        |
    /// |                        TCP options                            |
    /// ```
    Connect {
        /// The server to connect to.
        server: SocketAddr,
        /// TCP options that the converter must send to the server.
        options: Vec<TcpOption>,
    },
    /// TCP options of the server's answer to the converter (§6.2.6), after two zero bytes.
    ExtendedTcpHeader(Vec<TcpOption>),
    /// Kinds of TCP options that the converter supports (§6.2.4), after two zero bytes.
    SupportedTcpExtensions(Vec<u8>),
    /// The client's cookie (§6.2.7), after two zero bytes; a whole number of words.
    Cookie(Vec<u8>),
    /// Reason for a failure (§6.2.8) and its value, without trailing zeros.
    Error(ErrorCode, Vec<u8>),
    /// A TLV of a type that RFC 8803 does not define: its type, and all bytes after the type and the length.
    Other(u8, Vec<u8>),
}

const INFO: u8 = 1;
const CONNECT: u8 = 10;
const EXTENDED_TCP_HEADER: u8 = 20;
const SUPPORTED_TCP_EXTENSIONS: u8 = 21;
const COOKIE: u8 = 22;
const ERROR: u8 = 30;

/// Reason for a failure (§6.2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The version is not supported; the value contains a supported version.
    UnsupportedVersion,
    /// The message is malformed.
    MalformedMessage,
    /// A TLV is not supported; the value contains its type.
    UnsupportedMessage,
    /// A cookie is required; the error message contains it.
    MissingCookie,
    /// The client may not use the converter.
    NotAuthorized,
    /// TCP options are not supported; the value contains their kinds.
    UnsupportedTcpOption,
    /// The converter has no resources left; the value contains the number of seconds before the next attempt.
    ResourceExceeded,
    /// The converter's network is down.
    NetworkFailure,
    /// The server has reset the connection.
    ConnectionReset,
    /// The server is unreachable.
    DestinationUnreachable,
    /// An error that RFC 8803 does not define.
    Other(u8),
}

/// Codes defined in RFC 8803.
const CODES: [(u8, ErrorCode); 10] = [
    (0, ErrorCode::UnsupportedVersion),
    (1, ErrorCode::MalformedMessage),
    (2, ErrorCode::UnsupportedMessage),
    (3, ErrorCode::MissingCookie),
    (32, ErrorCode::NotAuthorized),
    (33, ErrorCode::UnsupportedTcpOption),
    (64, ErrorCode::ResourceExceeded),
    (65, ErrorCode::NetworkFailure),
    (96, ErrorCode::ConnectionReset),
    (97, ErrorCode::DestinationUnreachable),
];

impl ErrorCode {
    /// Returns the error with this number.
    pub fn from_code(code: u8) -> Self {
        CODES.iter().find(|(other, _)| *other == code).map_or(Self::Other(code), |(_, error)| *error)
    }

    /// Returns the number of the error.
    pub fn code(self) -> u8 {
        match self {
            Self::Other(code) => code,
            known => CODES.iter().find(|(_, error)| *error == known).expect("all known codes are listed").0,
        }
    }
}

impl Tlv {
    /// Returns the TLV's type.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Info => INFO,
            Self::Connect { .. } => CONNECT,
            Self::ExtendedTcpHeader(_) => EXTENDED_TCP_HEADER,
            Self::SupportedTcpExtensions(_) => SUPPORTED_TCP_EXTENSIONS,
            Self::Cookie(_) => COOKIE,
            Self::Error(..) => ERROR,
            Self::Other(kind, _) => *kind,
        }
    }

    /// Parses the bytes after the type and the length of a TLV: two bytes, then whole words.
    pub(super) fn parse(kind: u8, bytes: &[u8]) -> Result<Self, Malformed> {
        let (first, words) = bytes.split_first_chunk::<2>().ok_or(Malformed::Length)?;
        Ok(match kind {
            INFO if words.is_empty() => Self::Info,
            INFO => return Err(Malformed::Length),
            CONNECT => {
                let (address, options) = words.split_first_chunk::<16>().ok_or(Malformed::Length)?;
                let address = IpAddr::V6(Ipv6Addr::from(*address)).to_canonical();
                let server = SocketAddr::new(address, u16::from_be_bytes(*first));
                Self::Connect { server, options: option::parse(options)? }
            }
            EXTENDED_TCP_HEADER => Self::ExtendedTcpHeader(option::parse(words)?),
            SUPPORTED_TCP_EXTENSIONS => Self::SupportedTcpExtensions(without_padding(words).to_vec()),
            COOKIE => Self::Cookie(words.to_vec()),
            ERROR => Self::Error(ErrorCode::from_code(first[0]), without_padding(&bytes[1..]).to_vec()),
            other => Self::Other(other, bytes.to_vec()),
        })
    }

    /// Encodes the bytes after the type and the length of a TLV, without the padding of the last word.
    pub(super) fn emit(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Info => bytes.extend_from_slice(&[0; 2]),
            Self::Connect { server, options } => {
                bytes.extend_from_slice(&server.port().to_be_bytes());
                let address = match server.ip() {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                    IpAddr::V6(v6) => v6,
                };
                bytes.extend_from_slice(&address.octets());
                option::emit(options, bytes);
            }
            Self::ExtendedTcpHeader(options) => {
                bytes.extend_from_slice(&[0; 2]);
                option::emit(options, bytes);
            }
            Self::SupportedTcpExtensions(words) | Self::Cookie(words) => {
                bytes.extend_from_slice(&[0; 2]);
                bytes.extend_from_slice(words);
            }
            Self::Error(code, value) => {
                bytes.push(code.code());
                bytes.extend_from_slice(value);
            }
            Self::Other(_, all) => bytes.extend_from_slice(all),
        }
    }
}

fn without_padding(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..len]
}
