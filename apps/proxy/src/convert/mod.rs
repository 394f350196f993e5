//! The 0-RTT TCP Convert Protocol (RFC 8803), by which a client has a converter connect to a server: client, converter, and
//! the codec of messages.
//!
//! Each end begins its stream with one message. A message has a header of 32 bits, and lengths count words of 32 bits (§6.1):
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

pub(crate) use client::{Client, is_answered};
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

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It is of another version.
    Version(u8),
    /// The magic number is another.
    Magic,
    /// The length of the message, or of one of its TLVs or TCP options, fits no such thing, or not into what it is in.
    Length,
    /// There are two TLVs of this type (§6.2: the connection is to be closed).
    Twice(u8),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "begins with {version}, which is no version of Convert"),
            Self::Magic => f.write_str("has not the magic number of Convert"),
            Self::Length => f.write_str("gives a length that does not fit"),
            Self::Twice(kind) => write!(f, "says twice what may be said once (type {kind})"),
        }
    }
}

impl std::error::Error for Malformed {}

/// The message that a stream begins with, and its length in bytes; nothing if it is not complete.
///
/// # Errors
/// If it begins with something else, as early as that shows.
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
            return Err(Malformed::Twice(kind));
        }
        kinds.push(kind);
        tlvs.push(Tlv::parse(kind, &tlv[2..])?);
        rest = behind;
    }
    Ok(Some((tlvs, len)))
}

/// Writes a message; nothing if it would have more than the 255 words that its length has room for.
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
