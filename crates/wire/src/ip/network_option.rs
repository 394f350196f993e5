//! Requests of network control in IP headers: the first 24 bytes of the chunk
//! ([`NetworkControl`](crate::sctp::NetworkControl)) as an option. The idea is that of Becke2014 §8.1.2; the format is
//! our own, and experimental.
//!
//! ```text
//! IPv4:  type 158 | length 26 | 24 bytes of the chunk | 0 | 0                                 28 bytes
//! IPv6:  next header | 3 | type 0x3E | length 24 | 24 bytes of the chunk | PadN of 4 bytes    32 bytes
//! ```
//!
//! Both types are those for experiments (RFC 4727 §3.1, §3.6). The highest bits of IPv6's make nodes skip the option if
//! they do not know it, and let routers change it (RFC 8200 §4.2). There is no room for records, so the number of
//! records is zero, and a router changes a flag only.

use super::option_list::{IPV4_END, IPV6_PAD1, IPV6_PADN, OPTION_HEADER_LEN, find_data};
use super::{ipv4, ipv6};
use crate::error::{EncodeError, Header, ParseError, Problem};
use crate::sctp::NetworkControl;
use core::ops::Range;

/// Type of the option of IPv4: copied into fragments, class 0, number 30.
pub const IPV4_TYPE: u8 = 158;

/// Type of the hop-by-hop option of IPv6.
pub const IPV6_TYPE: u8 = 0x3e;

/// Bytes of the fields of an extension header that precede its options.
const EXTENSION_HEADER_LEN: usize = 2;

/// Maximum length of the data of an IPv4 option.
const MAX_IPV4_DATA_LEN: usize = ipv4::Header::MAX_OPTIONS_LEN - OPTION_HEADER_LEN;

/// An option of these types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkOption {
    /// A request without records.
    Request(NetworkControl),
    /// Other data, which routers and receivers ignore.
    Invalid(Vec<u8>),
}

impl NetworkOption {
    /// Bytes that a request takes in an IP header.
    pub const fn request_len(is_ipv4: bool) -> u32 {
        options_len(is_ipv4, NetworkControl::FIXED_LEN as usize)
    }

    /// Bytes that the option takes in an IP header, padding included.
    pub fn wire_len(&self, is_ipv4: bool) -> u32 {
        let len = match self {
            Self::Request(_) => NetworkControl::FIXED_LEN as usize,
            Self::Invalid(data) => data.len(),
        };
        options_len(is_ipv4, len)
    }

    /// Checks that the option has an encoding.
    pub(crate) fn validate(&self, is_ipv4: bool) -> Result<(), EncodeError> {
        let longest = if is_ipv4 { MAX_IPV4_DATA_LEN } else { u8::MAX.into() };
        match self {
            Self::Request(control)
                if control.records.is_empty() && !control.is_report && !control.has_overflow =>
            {
                Ok(())
            }
            Self::Invalid(data) if data.len() <= longest => Ok(()),
            _ => Err(EncodeError::Value("a network control option is longer than its header permits")),
        }
    }

    /// Appends the options of an IPv4 header.
    pub(crate) fn emit_ipv4(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.wire_len(true) as usize;
        self.emit(IPV4_TYPE, OPTION_HEADER_LEN, out);
        out.resize(end, IPV4_END);
    }

    /// Appends a hop-by-hop options header, before a header of the type `next`.
    pub(crate) fn emit_ipv6(&self, next: u8, out: &mut Vec<u8>) {
        let len = self.wire_len(false);
        let end = out.len() + len as usize;
        out.extend_from_slice(&[next, (len / 8 - 1) as u8]);
        self.emit(IPV6_TYPE, 0, out);
        match end - out.len() {
            0 => {}
            1 => out.push(IPV6_PAD1),
            padding => {
                out.extend_from_slice(&[IPV6_PADN, (padding - OPTION_HEADER_LEN) as u8]);
                out.resize(end, 0);
            }
        }
    }

    /// Appends type, length and data; the length counts the data and `header` bytes.
    fn emit(&self, kind: u8, header: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&[kind, 0]);
        let start = out.len();
        match self {
            Self::Request(control) => control.emit_start(out),
            Self::Invalid(data) => out.extend_from_slice(data),
        }
        out[start - 1] = (out.len() - start + header) as u8;
    }

    /// The option among those of an IP header; `None` if there is none.
    pub(crate) fn find(is_ipv4: bool, options: &[u8]) -> Option<Self> {
        let data = &options[find_data((is_ipv4, own_type(is_ipv4)), options)?];
        Some(NetworkControl::parse_start(data).map_or_else(|| Self::Invalid(data.to_vec()), Self::Request))
    }

    /// The request in the header of an IP packet's bytes, if there is a valid one.
    pub fn requested_in(packet: &[u8]) -> Option<NetworkControl> {
        let place = place_in(packet)?;
        NetworkControl::parse_start(packet.get(place)?)
    }

    /// Sets the flag *shared* of the request in an IP packet's bytes, and corrects the checksum of the header.
    ///
    /// # Panics
    ///
    /// If the packet contains no request.
    pub fn mark_shared(packet: &mut [u8]) {
        let place = place_in(packet).expect("the packet contains a request");
        packet[place.start + 1] |= NetworkControl::SHARED_FLAG;
        if packet[0] >> 4 == 4 {
            ipv4::set_checksum(packet);
        }
    }
}

/// Bytes that an option with this number of data bytes takes in an IP header.
const fn options_len(is_ipv4: bool, data: usize) -> u32 {
    let option = OPTION_HEADER_LEN + data;
    if is_ipv4 {
        option.next_multiple_of(4) as u32
    } else {
        (EXTENSION_HEADER_LEN + option).next_multiple_of(8) as u32
    }
}

/// The place of the option's data in an IP packet's bytes.
fn place_in(packet: &[u8]) -> Option<Range<usize>> {
    let (is_ipv4, start, end) = match packet.first()? >> 4 {
        4 => (true, ipv4::Header::LEN as usize, usize::from(packet[0] & 15) * 4),
        6 if *packet.get(6)? == ipv6::HOP_BY_HOP => {
            let start = ipv6::Header::LEN as usize + EXTENSION_HEADER_LEN;
            (false, start, ipv6::upper_layer(packet).1)
        }
        _ => return None,
    };
    let place = find_data((is_ipv4, own_type(is_ipv4)), packet.get(start..end)?)?;
    Some(start + place.start..start + place.end)
}

const fn own_type(is_ipv4: bool) -> u8 {
    if is_ipv4 { IPV4_TYPE } else { IPV6_TYPE }
}

/// Checks that an unknown option of IPv6 does not make nodes discard the packet (RFC 8200 §4.2). `options` begin at
/// byte `at` of the packet.
pub(crate) fn check_ipv6(options: &[u8], at: usize) -> Result<(), ParseError> {
    let mut next = 0;
    while let Some(&kind) = options.get(next) {
        if kind == IPV6_PAD1 {
            next += 1;
            continue;
        }
        if kind >> 6 != 0 {
            return Err(ParseError::new(Header::Ipv6, at + next, Problem::Value(kind.into())));
        }
        let Some(&len) = options.get(next + 1) else { return Ok(()) };
        next += OPTION_HEADER_LEN + usize::from(len);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::from_hex as hex;
    use crate::sctp::network_control::Record;

    fn request() -> NetworkControl {
        NetworkControl {
            association: 0x0102_0304,
            path: 1,
            paths: 2,
            wanted_kbit_per_s: 10_000,
            apart_from: 1,
            ..NetworkControl::default()
        }
    }

    const START: &str = "be 00 00b8 01020304 01 02 00 00 00002710 0000 0000 00000001";

    #[test]
    fn options_have_28_and_32_bytes() {
        let option = NetworkOption::Request(request());
        let mut bytes = Vec::new();
        option.emit_ipv4(&mut bytes);
        assert_eq!(bytes, hex(&format!("9e 1a {START} 0000")));
        assert_eq!((bytes.len() as u32, option.wire_len(true)), (28, NetworkOption::request_len(true)));
        assert_eq!(NetworkOption::find(true, &bytes), Some(option.clone()));
        bytes.clear();
        option.emit_ipv6(6, &mut bytes);
        assert_eq!(bytes, hex(&format!("06 03 3e 18 {START} 01 02 0000")));
        assert_eq!((bytes.len() as u32, option.wire_len(false)), (32, NetworkOption::request_len(false)));
        assert_eq!(NetworkOption::find(false, &bytes[2..]), Some(option));
    }

    #[test]
    fn option_is_found_behind_others() {
        let option = NetworkOption::Request(request());
        // A router alert (RFC 2113) and a NOP; Pad1, PadN and a router alert (RFC 2711).
        let bytes = hex(&format!("94 04 0000 01 9e 1a {START} 00"));
        assert_eq!(NetworkOption::find(true, &bytes), Some(option.clone()));
        let bytes = hex(&format!("00 01 00 05 02 0000 3e 18 {START}"));
        assert_eq!(NetworkOption::find(false, &bytes), Some(option));
        for (is_ipv4, options) in [(true, "00 9e 1a"), (true, "94 01 9e 02"), (true, "94"), (false, "05")] {
            assert_eq!(NetworkOption::find(is_ipv4, &hex(options)), None, "{options}");
        }
    }

    #[test]
    fn invalid_options_keep_their_data() {
        let invalid = |data: &str| Some(NetworkOption::Invalid(hex(data)));
        // Without length; lengths of 0, 1 and beyond the header; 23 bytes.
        for (options, data) in [("9e", ""), ("9e 00 07", ""), ("9e 01", ""), ("9e ff 07 08", "07 08")] {
            assert_eq!(NetworkOption::find(true, &hex(options)), invalid(data), "{options}");
        }
        let start = hex(START);
        let short = [&[IPV4_TYPE, 25], &start[..23]].concat();
        assert_eq!(NetworkOption::find(true, &short), Some(NetworkOption::Invalid(start[..23].to_vec())));
        // Another type, a report, an overflow, another length, a record, path 2 of 2, and 33 paths.
        for (at, value) in [(0, 189), (1, 1), (1, 2), (2, 1), (3, 24), (10, 1), (8, 2), (9, 33), (9, 0)] {
            let mut data = start.clone();
            data[at] = value;
            let options = [&[IPV6_TYPE, 24], &data[..]].concat();
            let found = NetworkOption::find(false, &options).expect("an option");
            assert_eq!(found, NetworkOption::Invalid(data), "byte {at} is {value}");
            let mut written = Vec::new();
            found.emit_ipv6(6, &mut written);
            assert_eq!(NetworkOption::find(false, &written[2..]), Some(found));
        }
    }

    #[test]
    fn options_that_do_not_fit_are_refused() {
        let with = |records| NetworkOption::Request(NetworkControl { records, ..request() });
        assert_eq!(with(Vec::new()).validate(true), Ok(()));
        assert!(with(vec![Record::default()]).validate(true).is_err());
        for (len, ipv4, ipv6) in
            [(38, true, true), (39, false, true), (255, false, true), (256, false, false)]
        {
            let option = NetworkOption::Invalid(vec![0; len]);
            assert_eq!([true, false].map(|v4| option.validate(v4).is_ok()), [ipv4, ipv6], "{len}");
        }
    }

    #[test]
    fn discarding_options_are_errors() {
        assert_eq!(check_ipv6(&hex("00 05 02 0000 3e 00 01"), 42), Ok(()));
        let error = ParseError::new(Header::Ipv6, 43, Problem::Value(0xc2));
        assert_eq!(check_ipv6(&hex("00 c2 04 00000000"), 42), Err(error));
    }
}
