//! Address parameters (RFC 9260 §3.3.2.1.1, §3.3.2.1.2), which other parameters and causes contain.

use super::tlv;
use crate::error::{Header, ParseError, Problem};
use core::net::IpAddr;

/// Type number of an IPv4 address.
pub const IPV4: u16 = 5;
/// Type number of an IPv6 address.
pub const IPV6: u16 = 6;

/// Length of an address as a parameter, bytes.
pub(super) const fn length(address: &IpAddr) -> u32 {
    tlv::HEADER_LEN + if address.is_ipv4() { 4 } else { 16 }
}

/// Appends an address as a parameter.
pub(super) fn emit(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(octets) => {
            tlv::emit_header(IPV4, length(&address), out);
            out.extend_from_slice(&octets.octets());
        }
        IpAddr::V6(octets) => {
            tlv::emit_header(IPV6, length(&address), out);
            out.extend_from_slice(&octets.octets());
        }
    }
}

/// Reads addresses, each a parameter, and nothing else.
pub(super) fn parse_list(value: &[u8]) -> Result<Vec<IpAddr>, ParseError> {
    tlv::parse_list(value, |kind, value| {
        Ok(match kind {
            IPV4 => IpAddr::from(tlv::fixed_value::<4>(Header::SctpParameter(kind), value)?),
            IPV6 => IpAddr::from(tlv::fixed_value::<16>(Header::SctpParameter(kind), value)?),
            _ => return Err(ParseError::new(Header::SctpParameter(kind), 0, Problem::Value(kind.into()))),
        })
    })
}
