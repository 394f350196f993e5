//! Options with few fixed fields: `MP_PRIO`, `MP_FAIL`, `MP_FASTCLOSE` and `MP_TCPRST`.
//!
//! ```text
//! MP_PRIO (RFC 8684 §3.3.8), 3 bytes:       kind, length, subtype | 3 reserved | B
//! MP_TCPRST (RFC 8684 §3.6), 4 bytes:       kind, length, subtype | U V W T, reason
//! MP_FAIL (RFC 8684 §3.7), 12 bytes:        kind, length, subtype | 12 reserved, data sequence number (8)
//! MP_FASTCLOSE (RFC 8684 §3.5), 12 bytes:   kind, length, subtype | 12 reserved, receiver's key (8)
//! ```

use super::{Control, head, subtype, wrong_length};
use crate::error::ParseError;

const BACKUP: u8 = 0x01;

pub(super) fn emit_priority(backup: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(&head(3, subtype::PRIORITY, u8::from(backup) * BACKUP));
}

pub(super) fn parse_priority(option: &[u8]) -> Result<Control, ParseError> {
    match *option {
        [_, _, third] => Ok(Control::Priority { backup: third & BACKUP != 0 }),
        _ => Err(wrong_length(subtype::PRIORITY, option)),
    }
}

pub(super) fn emit_reset(flags: u8, reason: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&head(4, subtype::RESET, flags));
    out.push(reason);
}

pub(super) fn parse_reset(option: &[u8]) -> Result<Control, ParseError> {
    match *option {
        [_, _, third, reason] => Ok(Control::Reset { flags: third & 0x0f, reason }),
        _ => Err(wrong_length(subtype::RESET, option)),
    }
}

pub(super) fn emit_fail(dsn: u64, out: &mut Vec<u8>) {
    emit_number(subtype::FAIL, dsn, out);
}

pub(super) fn parse_fail(option: &[u8]) -> Result<Control, ParseError> {
    parse_number(subtype::FAIL, option).map(|dsn| Control::Fail { dsn })
}

pub(super) fn emit_fast_close(receiver_key: u64, out: &mut Vec<u8>) {
    emit_number(subtype::FAST_CLOSE, receiver_key, out);
}

pub(super) fn parse_fast_close(option: &[u8]) -> Result<Control, ParseError> {
    parse_number(subtype::FAST_CLOSE, option).map(|receiver_key| Control::FastClose { receiver_key })
}

fn emit_number(subtype: u8, number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&head(12, subtype, 0));
    out.push(0);
    out.extend_from_slice(&number.to_be_bytes());
}

fn parse_number(subtype: u8, option: &[u8]) -> Result<u64, ParseError> {
    let number = option.get(4..).and_then(|number| number.try_into().ok());
    number.map(u64::from_be_bytes).ok_or_else(|| wrong_length(subtype, option))
}
