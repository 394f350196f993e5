//! Codec of TCP options, as some TLVs contain them.

use super::Malformed;

/// End of the option list (RFC 9293 §3.1); only padding follows.
const END: u8 = 0;
/// No-operation, an option of one byte.
const NO_OPERATION: u8 = 1;

/// An option of a TCP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpOption {
    /// Option kind.
    pub kind: u8,
    /// Value without kind and length; at most 253 bytes.
    pub value: Vec<u8>,
}

impl TcpOption {
    /// True for the no-operation option, which only aligns other options.
    pub const fn is_no_operation(&self) -> bool {
        self.kind == NO_OPERATION
    }
}

/// Parses options up to the end of the list.
///
/// # Errors
/// If an option exceeds the remaining bytes, or its length is below 2.
pub fn parse(mut bytes: &[u8]) -> Result<Vec<TcpOption>, Malformed> {
    let mut options = Vec::new();
    loop {
        let (kind, len) = match *bytes {
            [] | [END, ..] => return Ok(options),
            [NO_OPERATION, ..] => (NO_OPERATION, 1),
            [_] => return Err(Malformed::Length),
            [kind, len, ..] => (kind, usize::from(len)),
        };
        let (option, behind) = bytes.split_at_checked(len).ok_or(Malformed::Length)?;
        let value = if kind == NO_OPERATION { &[][..] } else { option.get(2..).ok_or(Malformed::Length)? };
        options.push(TcpOption { kind, value: value.to_vec() });
        bytes = behind;
    }
}

/// Encodes options.
pub fn emit(options: &[TcpOption], bytes: &mut Vec<u8>) {
    for TcpOption { kind, value } in options {
        bytes.push(*kind);
        if *kind != NO_OPERATION {
            bytes.push(2 + value.len() as u8);
            bytes.extend_from_slice(value);
        }
    }
}
