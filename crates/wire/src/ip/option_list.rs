//! The list of options in an IP header (RFC 791 §3.1; RFC 8200 §4.2).

use core::ops::Range;

/// Bytes of type and length of an option.
pub(super) const OPTION_HEADER_LEN: usize = 2;

/// Padding options.
pub(super) const IPV4_END: u8 = 0;
pub(super) const IPV4_NOP: u8 = 1;
pub(super) const IPV6_PAD1: u8 = 0;
pub(super) const IPV6_PADN: u8 = 1;

/// The place of the data of the first option of the type `own` among the options of a header. If its length is invalid,
/// the data ends where the header ends, or is empty.
pub(super) fn find_data((is_ipv4, own): (bool, u8), options: &[u8]) -> Option<Range<usize>> {
    let (end_of_list, pad, header) =
        if is_ipv4 { (Some(IPV4_END), IPV4_NOP, OPTION_HEADER_LEN) } else { (None, IPV6_PAD1, 0) };
    let mut at = 0;
    loop {
        let kind = *options.get(at)?;
        if Some(kind) == end_of_list {
            return None;
        }
        if kind == pad {
            at += 1;
            continue;
        }
        let start = at + OPTION_HEADER_LEN;
        let len = options.get(at + 1).and_then(|&len| usize::from(len).checked_sub(header));
        let end = start + len.unwrap_or_default();
        if kind == own {
            let start = start.min(options.len());
            return Some(start..end.clamp(start, options.len()));
        }
        at = len.map(|_| end)?;
    }
}

/// Number of bytes before the padding at the end of an IPv4 header's options.
pub(super) fn ipv4_list_end(options: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let len = match (kind, options.get(at + 1)) {
            (IPV4_END, _) => return at,
            (IPV4_NOP, _) => 1,
            (_, Some(&len)) if usize::from(len) >= OPTION_HEADER_LEN => usize::from(len),
            _ => return options.len(),
        };
        at += len;
    }
    options.len()
}
