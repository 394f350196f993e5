//! The 0-RTT TCP Convert Protocol (RFC 8803): a client requests a connection to a server from a converter. This module
//! contains the client, the converter, and the codec of their messages.
//!
//! Each endpoint starts its stream with one message. A message has a header of 32 bits, and lengths count 32-bit words
//! (§6.1):
//!
//! ```text
//! |   version 1   | total length  |      magic number 0x2263       |
//! |                              TLVs                             |
//! ```

mod admission;
mod client;
mod cookie;
mod errors;
mod kernel;
mod option;
mod service;
mod session;
mod tlv;

pub(crate) use client::{Client, probe_converter};
pub use option::TcpOption;
pub use service::Converter;
use std::fmt;
pub use tlv::{ErrorCode, Tlv};

/// Version of the protocol.
pub const VERSION: u8 = 1;
/// Third and fourth byte of a message.
pub const MAGIC: u16 = 0x2263;
/// Bytes of a 32-bit word, the unit of lengths.
const WORD: usize = 4;

/// Reason why bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The version is not 1; contains the received version.
    Version(u8),
    /// The magic number is wrong.
    Magic,
    /// The length of the message, of a TLV or of a TCP option is invalid, or exceeds its container.
    Length,
    /// The message contains two TLVs of this type (§6.2: the connection must be closed).
    DuplicateTlv(u8),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => {
                write!(f, "starts with {version}, which is not a version of the Convert protocol")
            }
            Self::Magic => f.write_str("does not contain the magic number of the Convert protocol"),
            Self::Length => f.write_str("contains an invalid length"),
            Self::DuplicateTlv(kind) => write!(f, "contains TLV type {kind} twice"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Parses the message at the start of a stream; returns its TLVs and its length in bytes, or `None` if it is incomplete.
///
/// # Errors
/// If the bytes cannot be the beginning of a valid message. The error is returned as soon as the first wrong byte is
/// there.
pub fn parse(bytes: &[u8]) -> Result<Option<(Vec<Tlv>, usize)>, Malformed> {
    match *bytes {
        [version, ..] if version != VERSION => return Err(Malformed::Version(version)),
        [_, 0, ..] => return Err(Malformed::Length),
        [_, _, high, ..] if high != MAGIC.to_be_bytes()[0] => return Err(Malformed::Magic),
        [_, _, _, low, ..] if low != MAGIC.to_be_bytes()[1] => return Err(Malformed::Magic),
        _ => {}
    }
    let Some(len) = bytes.get(1).map(|&words| usize::from(words) * WORD) else { return Ok(None) };
    let Some(message) = bytes.get(..len) else { return Ok(None) };
    let (mut rest, mut tlvs, mut kinds) = (&message[WORD..], Vec::new(), Vec::new());
    while let [kind, words, ..] = *rest {
        let (tlv, behind) = rest
            .split_at_checked(usize::from(words) * WORD)
            .filter(|_| words > 0)
            .ok_or(Malformed::Length)?;
        if kinds.contains(&kind) {
            return Err(Malformed::DuplicateTlv(kind));
        }
        kinds.push(kind);
        tlvs.push(Tlv::parse(kind, &tlv[2..])?);
        rest = behind;
    }
    Ok(Some((tlvs, len)))
}

/// Encodes a message; `None` if it is longer than 255 words, the maximum of the length field.
pub fn emit(tlvs: &[Tlv]) -> Option<Vec<u8>> {
    let mut bytes = vec![VERSION, 0];
    bytes.extend_from_slice(&MAGIC.to_be_bytes());
    for tlv in tlvs {
        let start = bytes.len();
        bytes.extend_from_slice(&[tlv.kind(), 0]);
        tlv.emit(&mut bytes);
        bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        bytes[start + 1] = u8::try_from((bytes.len() - start) / WORD).ok()?;
    }
    bytes[1] = u8::try_from(bytes.len() / WORD).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests;
