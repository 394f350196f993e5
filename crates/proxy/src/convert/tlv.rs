//! Parts of messages (RFC 8803 §6.2).

use super::Malformed;
use super::option::{self, TcpOption};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A part of a message. In bytes each is `| type | length in words | ... |`, filled up with zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tlv {
    /// A client asks which TCP extensions the converter supports (§6.2.3).
    Info,
    /// A client wants to be connected (§6.2.5). An address of IPv4 is written as one of IPv6.
    ///
    /// ```text
    /// |     10        |    length     |             port              |
    /// |                     address (16 bytes)                        |
    /// |                        TCP options                            |
    /// ```
    Connect {
        /// With whom.
        server: SocketAddr,
        /// Options that the converter is to send to the server.
        options: Vec<TcpOption>,
    },
    /// The options with which the server has answered the converter (§6.2.6), behind two bytes of zero.
    ExtendedTcpHeader(Vec<TcpOption>),
    /// The kinds of TCP options that the converter supports (§6.2.4), behind two bytes of zero.
    SupportedTcpExtensions(Vec<u8>),
    /// The client's cookie (§6.2.7), after two zero bytes; a whole number of words.
    Cookie(Vec<u8>),
    /// Reason of a failure (§6.2.8) and its value, without zeros at its end.
    Error(ErrorCode, Vec<u8>),
    /// Of a type that RFC 8803 does not have, with all that follows type and length.
    Other(u8, Vec<u8>),
}

const INFO: u8 = 1;
const CONNECT: u8 = 10;
const EXTENDED_TCP_HEADER: u8 = 20;
const SUPPORTED_TCP_EXTENSIONS: u8 = 21;
const COOKIE: u8 = 22;
const ERROR: u8 = 30;

/// Reason of a failure (§6.2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The version is not supported; the value has one that is.
    UnsupportedVersion,
    /// The message is none.
    MalformedMessage,
    /// A TLV is not supported; the value has its type.
    UnsupportedMessage,
    /// A cookie is needed, which comes with the error.
    MissingCookie,
    /// The client may not use the converter.
    NotAuthorized,
    /// Options are not supported; the value has their kinds.
    UnsupportedTcpOption,
    /// The converter has no room; the value has the seconds after which to try again.
    ResourceExceeded,
    /// The converter's network is down.
    NetworkFailure,
    /// The server has reset the connection.
    ConnectionReset,
    /// The server is not reached.
    DestinationUnreachable,
    /// One that RFC 8803 does not have.
    Other(u8),
}

/// The codes that RFC 8803 has.
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
    /// Of its number.
    pub fn from_code(code: u8) -> Self {
        CODES.iter().find(|(other, _)| *other == code).map_or(Self::Other(code), |(_, error)| *error)
    }

    /// Its number.
    pub fn code(self) -> u8 {
        match self {
            Self::Other(code) => code,
            known => CODES.iter().find(|(_, error)| *error == known).expect("all are listed").0,
        }
    }
}

impl Tlv {
    /// Its type.
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

    /// Reads what follows type and length: two bytes and whole words.
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

    /// Writes what follows type and length, without the zeros that fill up the last word.
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
