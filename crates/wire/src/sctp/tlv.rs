//! The common form of parameters and error causes: type, length, value, padding (RFC 9260 §3.2.1, §3.3.10).
//!
//! ```text
//!  0                   1                   2                   3
//! +-------------------------------+-------------------------------+
//! |             Type              |            Length             |
//! +-------------------------------+-------------------------------+
//! :                             Value             +---------------+
//! :                                               |    Padding    |
//! +-----------------------------------------------+---------------+
//! ```

use super::padded;
use crate::error::{Header, ParseError, Problem};

/// Length of the header, bytes: type, length.
pub(super) const HEADER_LEN: u32 = 4;

/// Appends zero bytes until the length after `start` is a multiple of four.
pub(super) fn pad(out: &mut Vec<u8>, start: usize) {
    let len = padded((out.len() - start) as u32);
    out.resize(start + len as usize, 0);
}

/// Appends the header of a parameter or cause whose length field is `length`.
pub(super) fn emit_header(kind: u16, length: u32, out: &mut Vec<u8>) {
    let length = u16::try_from(length).expect("a parameter or cause has at most 65,535 bytes");
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
}

/// Appends items, each but the last padded: the padding of the last one belongs to the chunk.
pub(super) fn emit_list<T>(items: &[T], out: &mut Vec<u8>, emit: fn(&T, &mut Vec<u8>)) {
    let start = out.len();
    for item in items {
        pad(out, start);
        emit(item, out);
    }
}

/// Bytes that [`emit_list`] appends for items with these lengths.
pub(super) fn list_length(lengths: impl Iterator<Item = u32>) -> u32 {
    lengths.fold(0, |before, length| padded(before) + length)
}

/// Reads items up to the end of `bytes`, the rest of a chunk's value. The chunk's length may or may not
/// include the padding of the last item (RFC 9260 §3.2). `parse` gets type and value.
pub(super) fn parse_list<T>(
    bytes: &[u8],
    parse: fn(u16, &[u8]) -> Result<T, ParseError>,
) -> Result<Vec<T>, ParseError> {
    const HEADER: usize = HEADER_LEN as usize;
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let truncated = |header, needed| {
            ParseError::new(header, at, Problem::Truncated { needed, available: rest.len() })
        };
        let Some((&[k0, k1, l0, l1], _)) = rest.split_first_chunk::<HEADER>() else {
            return Err(truncated(Header::Sctp, HEADER));
        };
        let kind = u16::from_be_bytes([k0, k1]);
        let header = Header::SctpParameter(kind);
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        if length < HEADER {
            return Err(ParseError::new(header, at + 2, Problem::Length(length)));
        }
        let value = rest.get(HEADER..length).ok_or_else(|| truncated(header, length))?;
        items.push(parse(kind, value).map_err(|error| error.shifted(at + HEADER))?);
        at += padded(length as u32) as usize;
    }
    Ok(items)
}

/// The bytes of a value that must have exactly `N` bytes.
pub(super) fn fixed_value<const N: usize>(header: Header, value: &[u8]) -> Result<[u8; N], ParseError> {
    value.try_into().map_err(|_| wrong_length(header, value))
}

/// The error for a value with an impossible length. A chunk's header is as long as a parameter's.
pub(super) fn wrong_length(header: Header, value: &[u8]) -> ParseError {
    ParseError::new(header, 0, Problem::Length(HEADER_LEN as usize + value.len()))
}
