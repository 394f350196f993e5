//! `REMOVE_ADDR` (RFC 8684 §3.4.2): kind, length, subtype and four reserved bits, then one byte per address
//! identifier.

use super::{Control, head, subtype, wrong_length};
use crate::error::ParseError;

pub(super) fn emit(ids: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&head(3 + ids.len() as u32, subtype::REMOVE_ADDRESS, 0));
    out.extend_from_slice(ids);
}

pub(super) fn parse(option: &[u8]) -> Result<Control, ParseError> {
    match option.get(3..) {
        Some(ids) if !ids.is_empty() => Ok(Control::RemoveAddress(ids.to_vec())),
        _ => Err(wrong_length(subtype::REMOVE_ADDRESS, option)),
    }
}
