//! Generic Routing Encapsulation (RFC 2784) with keys (RFC 2890).
//!
//! ```text
//! +-+-+-+-+-----------------+-----+-------------------------------+
//! |C| |K|S| Reserved0       | Ver |         Protocol Type         |
//! +-+-+-+-+-----------------+-----+-------------------------------+
//! |      Checksum (optional)      |      Reserved1 (optional)     |
//! +-------------------------------+-------------------------------+
//! |                         Key (optional)                        |
//! +---------------------------------------------------------------+
//! ```

use crate::bytes::Reader;
use crate::checksum::Checksum;
use crate::error::{Header, ParseError, Problem};

/// Protocol types: the `EtherTypes` of payloads.
pub mod protocol_type {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// For local experiments (IEEE 802, Local Experimental `EtherType` 1).
    pub const EXPERIMENTAL: u16 = 0x88b5;
}

/// The destination port of GRE in UDP (RFC 8086 §3).
pub const UDP_PORT: u16 = 4754;

const CHECKSUM_PRESENT: u16 = 1 << 15;
const KEY_PRESENT: u16 = 1 << 13;
/// Flags that a receiver must not ignore (RFC 2784 §2.2): those of RFC 1701, and the sequence number of RFC 2890.
const UNSUPPORTED: u16 = 0x5c00;
const VERSION: u16 = 7;

/// A header of GRE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gre {
    /// The key, if there is one.
    pub key: Option<u32>,
    /// The type of the payload, see [`protocol_type`].
    pub protocol_type: u16,
}

impl Gre {
    /// Length that [`emit`](Self::emit) writes, bytes.
    pub const fn wire_len(&self) -> u32 {
        if self.key.is_some() { 8 } else { 4 }
    }

    /// Appends the header, without a checksum.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let flags = if self.key.is_some() { KEY_PRESENT } else { 0 };
        out.extend_from_slice(&flags.to_be_bytes());
        out.extend_from_slice(&self.protocol_type.to_be_bytes());
        if let Some(key) = self.key {
            out.extend_from_slice(&key.to_be_bytes());
        }
    }

    /// Reads a header, and returns it with the payload behind it.
    ///
    /// # Errors
    ///
    /// Truncated bytes, another version than 0, flags of RFC 1701, a sequence number, or a wrong checksum.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut reader = Reader::new(Header::Gre, bytes);
        let flags = reader.u16()?;
        let error = |at, problem| Err(ParseError::new(Header::Gre, at, problem));
        if flags & VERSION != 0 {
            return error(1, Problem::Version((flags & VERSION) as u8));
        }
        if flags & UNSUPPORTED != 0 {
            return error(0, Problem::Value(flags.into()));
        }
        let protocol_type = reader.u16()?;
        if flags & CHECKSUM_PRESENT != 0 {
            let found = reader.u16()?;
            let _reserved = reader.u16()?;
            if Checksum::new().bytes(bytes).finish() != 0 {
                let computed = Checksum::new().bytes(&bytes[..4]).bytes(&bytes[6..]).finish();
                return error(4, Problem::Checksum { found: found.into(), computed: computed.into() });
            }
        }
        let key = if flags & KEY_PRESENT != 0 { Some(reader.u32()?) } else { None };
        Ok((Self { key, protocol_type }, reader.rest()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::from_hex;
    use proptest::prelude::*;

    #[test]
    fn headers_have_the_layout_of_the_rfcs() {
        let keyed = Gre { key: Some(0x0102_0304), protocol_type: protocol_type::IPV4 };
        let plain = Gre { key: None, protocol_type: protocol_type::IPV6 };
        for (header, hex) in [(keyed, "2000 0800 01020304"), (plain, "0000 86dd")] {
            let mut bytes = Vec::new();
            header.emit(&mut bytes);
            assert_eq!(bytes, from_hex(hex));
            assert_eq!(bytes.len(), header.wire_len() as usize);
            bytes.push(7);
            assert_eq!(Gre::parse(&bytes), Ok((header, [7].as_slice())));
        }
    }

    #[test]
    fn checksum_of_another_sender_is_verified() {
        // 0xa000 + 0x0800 + 0x0001 + 0x4500 = 0xed01, whose complement is 0x12fe.
        let right = from_hex("a000 0800 12fe 0000 0000 0001 4500");
        let header = Gre { key: Some(1), protocol_type: protocol_type::IPV4 };
        assert_eq!(Gre::parse(&right), Ok((header, [0x45, 0].as_slice())));
        for at in 0..right.len() {
            let mut wrong = right.clone();
            wrong[at] ^= 0x40;
            // The flags of unknown extensions, and bits that the sum covers.
            assert!(Gre::parse(&wrong).is_err(), "byte {at}");
        }
    }

    #[test]
    fn unsupported_headers_are_refused() {
        for (hex, problem) in [
            ("2001 0800 00000001", Problem::Version(1)),
            ("3000 0800 00000001 00000002", Problem::Value(0x3000)),
            ("4000 0800", Problem::Value(0x4000)),
            ("2000 0800 0000", Problem::Truncated { needed: 4, available: 2 }),
            ("20", Problem::Truncated { needed: 2, available: 1 }),
        ] {
            assert_eq!(Gre::parse(&from_hex(hex)).map_err(|error| error.problem), Err(problem), "{hex}");
        }
        // Bits 6 to 12 are ignored (RFC 2784 §2.2).
        assert!(Gre::parse(&from_hex("03f8 0800")).is_ok());
    }

    proptest! {
        #[test]
        fn headers_round_trip(key: Option<u32>, protocol_type: u16, payload: Vec<u8>) {
            let header = Gre { key, protocol_type };
            let mut bytes = Vec::new();
            header.emit(&mut bytes);
            bytes.extend(&payload);
            prop_assert_eq!(Gre::parse(&bytes), Ok((header, payload.as_slice())));
        }
    }
}
