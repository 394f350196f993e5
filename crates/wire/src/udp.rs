//! UDP (RFC 768).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |          Source Port          |       Destination Port        |
//! +-------------------------------+-------------------------------+
//! |            Length             |           Checksum            |
//! +-------------------------------+-------------------------------+
//! ```

use crate::Payload;
use crate::bytes::Reader;
use crate::error::{Header, ParseError, Problem};
use crate::ip::{Addresses, protocol};

/// A UDP datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Payload.
    pub payload: Payload,
}

impl Datagram {
    /// Length of the header, bytes.
    pub const HEADER_LEN: u32 = 8;

    /// Exact length of header and payload, bytes.
    pub const fn wire_len(&self) -> u32 {
        Self::HEADER_LEN + self.payload.len
    }

    /// Appends header and payload with the right checksum; `fill` writes the payload's bytes.
    ///
    /// # Panics
    /// If the datagram is longer than 65,535 bytes.
    pub fn emit_with(&self, addresses: Addresses, out: &mut Vec<u8>, fill: impl FnOnce(&mut [u8])) {
        let start = out.len();
        let len = u16::try_from(self.wire_len()).expect("a UDP datagram of at most 65,535 bytes");
        out.extend_from_slice(&self.source_port.to_be_bytes());
        out.extend_from_slice(&self.destination_port.to_be_bytes());
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.resize(start + usize::from(len), 0);
        fill(&mut out[start + Self::HEADER_LEN as usize..]);
        let sum = addresses.pseudo_header(protocol::UDP, len.into()).bytes(&out[start..]).finish();
        // Zero means no checksum, so it is sent as all ones, which is the same number (RFC 768).
        let sum = if sum == 0 { 0xffff } else { sum };
        out[start + 6..start + 8].copy_from_slice(&sum.to_be_bytes());
    }

    /// Reads a datagram. The payload's offset is the index of its bytes in `bytes`. Bytes behind the
    /// datagram's length are ignored, as is the absence of a checksum with IPv4.
    ///
    /// # Errors
    /// Truncated bytes, impossible lengths, a wrong checksum, or none with IPv6 (RFC 8200 §8.1).
    pub fn parse(bytes: &[u8], addresses: Addresses) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::Udp, bytes);
        let error = |at, problem| Err(ParseError::new(Header::Udp, at, problem));
        let (source_port, destination_port) = (reader.u16()?, reader.u16()?);
        let (len, found) = (reader.u16()?, reader.u16()?);
        if u32::from(len) < Self::HEADER_LEN {
            return error(4, Problem::Length(len.into()));
        }
        let Some(bytes) = bytes.get(..usize::from(len)) else {
            return error(4, Problem::Truncated { needed: len.into(), available: bytes.len() });
        };
        let pseudo_header = addresses.pseudo_header(protocol::UDP, len.into());
        let unchecked = found == 0 && addresses.source.is_ipv4();
        if !unchecked && (found == 0 || pseudo_header.bytes(bytes).finish() != 0) {
            let computed = pseudo_header.bytes(&bytes[..6]).bytes(&bytes[8..]).finish();
            return error(6, Problem::Checksum { found: found.into(), computed: computed.into() });
        }
        let payload = Payload::new(Self::HEADER_LEN.into(), u32::from(len) - Self::HEADER_LEN);
        Ok(Self { source_port, destination_port, payload })
    }
}
