//! The IPv4 header (RFC 791), with the fields of RFC 2474 (DSCP) and RFC 3168 (ECN).
//!
//! ```text
//!  0                   1                   2                   3
//! +-------+-------+-----------+---+-------------------------------+
//! |Version|  IHL  |   DSCP    |ECN|          Total Length         |
//! +-------+-------+-----------+---+-----+-------------------------+
//! |         Identification        |Flags|      Fragment Offset    |
//! +---------------+---------------+-----+-------------------------+
//! |  Time to Live |    Protocol   |        Header Checksum        |
//! +---------------+---------------+-------------------------------+
//! |                       Source Address                          |
//! |                    Destination Address                        |
//! +---------------------------------------------------------------+
//! ```

use super::HOP_LIMIT;
use crate::Ecn;
use crate::bytes::Reader;
use crate::checksum::Checksum;
use crate::error::{Header as Where, ParseError, Problem};
use core::net::Ipv4Addr;

/// Sets the checksum of the header at the start of a packet, options included.
///
/// # Panics
/// If the packet is shorter than its header.
pub fn set_checksum(packet: &mut [u8]) {
    let len = usize::from(packet[0] & 15).max(5) * 4;
    let header = &mut packet[..len];
    header[10..12].fill(0);
    let checksum = Checksum::new().bytes(header).finish();
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// The IPv4 header of an unfragmented packet, without its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Upper-layer protocol, see [`super::protocol`].
    pub protocol: u8,
    /// Differentiated services code point, 6 bits.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Identification. Packets that may not be fragmented need no unique value (RFC 6864 §4.1).
    pub identification: u16,
    /// DF: routers must not split the packet into fragments.
    pub dont_fragment: bool,
    /// Time to live, hops.
    pub ttl: u8,
    /// Bytes behind the header.
    pub payload_len: u16,
}

impl Header {
    /// Length in bytes, as written.
    pub const LEN: u32 = 20;

    /// Maximum length of options, bytes.
    pub const MAX_OPTIONS_LEN: usize = 40;

    /// The largest payload that the total length can express, bytes.
    pub const MAX_PAYLOAD: u32 = 65_535 - Self::LEN;

    /// A header as Anabranch's hosts write it: DSCP 0, identification 0, DF set, [`HOP_LIMIT`](super::HOP_LIMIT).
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload_len: u16) -> Self {
        Self {
            source,
            destination,
            protocol,
            dscp: 0,
            ecn: Ecn::NotEct,
            identification: 0,
            dont_fragment: true,
            ttl: HOP_LIMIT,
            payload_len,
        }
    }

    /// Appends the header, checksum included.
    ///
    /// # Panics
    /// If `payload_len` is more than [`Self::MAX_PAYLOAD`].
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_with(out, |_| {});
    }

    /// Appends the header with the options that `emit_options` appends: whole words, at most
    /// [`MAX_OPTIONS_LEN`](Self::MAX_OPTIONS_LEN) bytes.
    ///
    /// # Panics
    /// If `payload_len` and the options are more than [`Self::MAX_PAYLOAD`].
    pub fn emit_with(&self, out: &mut Vec<u8>, emit_options: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&self.fixed());
        emit_options(out);
        let header = &mut out[start..];
        let total = header.len() as u32 + u32::from(self.payload_len);
        assert!(
            total <= Self::LEN + Self::MAX_PAYLOAD,
            "an IPv4 packet of {total} bytes, {} of them payload",
            self.payload_len
        );
        header[0] = 0x40 | (header.len() / 4) as u8;
        header[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        set_checksum(header);
    }

    /// The bytes before the options, without lengths and checksum.
    fn fixed(&self) -> [u8; Self::LEN as usize] {
        let mut header = [0; Self::LEN as usize];
        header[1] = (self.dscp & 0x3f) << 2 | self.ecn as u8;
        header[4..6].copy_from_slice(&self.identification.to_be_bytes());
        header[6] = if self.dont_fragment { 0x40 } else { 0 };
        header[8] = self.ttl;
        header[9] = self.protocol;
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        header
    }

    /// Reads a header and returns it with its length on the wire; the payload follows there, and bytes behind the
    /// payload are link-layer padding.
    ///
    /// # Errors
    /// Truncated bytes, impossible lengths, a wrong checksum, or a fragment.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        let mut reader = Reader::new(Where::Ipv4, bytes);
        let error = |at, problem| Err(ParseError::new(Where::Ipv4, at, problem));
        let fixed: [u8; 20] = reader.array()?;
        let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        if fixed[0] >> 4 != 4 {
            return error(0, Problem::Version(fixed[0] >> 4));
        }
        let header_len = usize::from(fixed[0] & 0x0f) * 4;
        if header_len < 20 {
            return error(0, Problem::Length(header_len));
        }
        let total = usize::from(word(2));
        if total < header_len {
            return error(2, Problem::Length(total));
        }
        if total > bytes.len() {
            return error(2, Problem::Truncated { needed: total, available: bytes.len() });
        }
        let sum = Checksum::new().bytes(&bytes[..header_len]).finish();
        if sum != 0 {
            let found = word(10);
            let computed = Checksum::new().bytes(&bytes[..10]).bytes(&bytes[12..header_len]).finish();
            return error(10, Problem::Checksum { found: found.into(), computed: computed.into() });
        }
        // The packet is a fragment: the flag "more fragments" is set, or the offset is not zero.
        if word(6) & 0x3fff != 0 {
            return error(6, Problem::Fragment);
        }
        let octets = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
        let header = Self {
            source: octets(12),
            destination: octets(16),
            protocol: fixed[9],
            dscp: fixed[1] >> 2,
            ecn: Ecn::from_bits(fixed[1]),
            identification: word(4),
            dont_fragment: fixed[6] & 0x40 != 0,
            ttl: fixed[8],
            payload_len: (total - header_len) as u16,
        };
        Ok((header, header_len))
    }
}
