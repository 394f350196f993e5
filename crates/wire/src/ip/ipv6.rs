//! The IPv6 header (RFC 8200 §3). The packet parser returns an error for extension headers other than hop-by-hop
//! options.
//!
//! ```text
//!  0                   1                   2                   3
//! +-------+-----------+---+---------------------------------------+
//! |Version|   DSCP    |ECN|              Flow Label               |
//! +-------+-----------+---+-------+---------------+---------------+
//! |         Payload Length        |  Next Header  |   Hop Limit   |
//! +-------------------------------+---------------+---------------+
//! |                  Source Address (16 bytes)                    |
//! |               Destination Address (16 bytes)                  |
//! +---------------------------------------------------------------+
//! ```

use super::HOP_LIMIT;
use crate::Ecn;
use crate::bytes::Reader;
use crate::error::{Header as Where, ParseError, Problem};
use core::net::Ipv6Addr;

/// Type of the header of hop-by-hop options (RFC 8200 §4.3), which follows the IPv6 header directly.
pub const HOP_BY_HOP: u8 = 0;

/// Upper-layer protocol of a packet of at least [`Header::LEN`] bytes, and the length of its headers before that: the
/// IPv6 header, and one of hop-by-hop options if that is whole.
pub fn upper_layer(packet: &[u8]) -> (u8, usize) {
    let len = Header::LEN as usize;
    let next = packet[6];
    if next == HOP_BY_HOP
        && let Some(&[after, words]) = packet.get(len..).and_then(<[u8]>::first_chunk)
        && let end = len + 8 * (usize::from(words) + 1)
        && end <= packet.len()
    {
        return (after, end);
    }
    (next, len)
}

/// The IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Upper-layer protocol, see [`super::protocol`], or an extension header.
    pub next_header: u8,
    /// Differentiated services code point, 6 bits.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Bytes behind the header.
    pub payload_len: u16,
}

impl Header {
    /// Length in bytes.
    pub const LEN: u32 = 40;

    /// The largest payload that the payload length can express, bytes; jumbograms (RFC 2675) are not supported.
    pub const MAX_PAYLOAD: u32 = 65_535;

    /// A header as Anabranch's hosts write it: DSCP and flow label 0, [`HOP_LIMIT`](super::HOP_LIMIT).
    pub const fn new(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8, payload_len: u16) -> Self {
        Self {
            source,
            destination,
            next_header,
            dscp: 0,
            ecn: Ecn::NotEct,
            flow_label: 0,
            hop_limit: HOP_LIMIT,
            payload_len,
        }
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let class = u32::from(self.dscp & 0x3f) << 2 | u32::from(self.ecn as u8);
        let first = 6 << 28 | class << 20 | self.flow_label & 0x000f_ffff;
        out.extend_from_slice(&first.to_be_bytes());
        out.extend_from_slice(&self.payload_len.to_be_bytes());
        out.extend_from_slice(&[self.next_header, self.hop_limit]);
        out.extend_from_slice(&self.source.octets());
        out.extend_from_slice(&self.destination.octets());
    }

    /// Reads a header of [`Self::LEN`] bytes; the payload follows, and bytes behind it are link-layer padding.
    ///
    /// # Errors
    /// Truncated bytes or another version.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Where::Ipv6, bytes);
        let first = reader.u32()?;
        if first >> 28 != 6 {
            return Err(ParseError::new(Where::Ipv6, 0, Problem::Version((first >> 28) as u8)));
        }
        let header = Self {
            payload_len: reader.u16()?,
            next_header: reader.u8()?,
            hop_limit: reader.u8()?,
            source: Ipv6Addr::from(reader.array::<16>()?),
            destination: Ipv6Addr::from(reader.array::<16>()?),
            dscp: (first >> 22) as u8 & 0x3f,
            ecn: Ecn::from_bits((first >> 20) as u8),
            flow_label: first & 0x000f_ffff,
        };
        let needed = Self::LEN as usize + usize::from(header.payload_len);
        if needed > bytes.len() {
            return Err(ParseError::new(
                Where::Ipv6,
                4,
                Problem::Truncated { needed, available: bytes.len() },
            ));
        }
        Ok(header)
    }
}
