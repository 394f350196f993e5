//! Data Sequence Signal (RFC 8684 §3.3).
//!
//! ```text
//! +---------------+---------------+-------+-------+-----+-+-+-+-+-+
//! |     Kind      |    Length     |Subtype|  (reserved) |F|m|M|a|A|
//! +---------------+---------------+-------+-------+-----+-+-+-+-+-+
//! |   Data ACK (with A: 4 bytes, with a: 8)                       |
//! |   Data Sequence Number (with M: 4 bytes, with m: 8)           |
//! |   Subflow Sequence Number (4, with M)                         |
//! +-------------------------------+-------------------------------+
//! | Data-Level Length (2, with M) | Checksum (2, if negotiated)   |
//! +-------------------------------+-------------------------------+
//! ```

use super::{head, subtype, wrong_length};
use crate::bytes::Reader;
use crate::checksum::Checksum;
use crate::error::{Header, ParseError};

const ACK: u8 = 0x01;
const LONG_ACK: u8 = 0x02;
const MAPPING: u8 = 0x04;
const LONG_DSN: u8 = 0x08;
const DATA_FIN: u8 = 0x10;

/// Data Sequence Signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dss {
    /// Next data sequence number expected.
    pub data_ack: Option<DataNumber>,
    /// The mapping of the payload to data sequence numbers.
    pub mapping: Option<Mapping>,
    /// `DATA_FIN`: the mapping's last number is the end of the data stream.
    pub data_fin: bool,
}

/// A data sequence number or acknowledgement as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataNumber {
    /// The low 32 bits.
    Short(u32),
    /// All 64 bits.
    Long(u64),
}

/// A mapping from subflow to data sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First data sequence number.
    pub dsn: DataNumber,
    /// Subflow sequence number of the first byte, relative to the initial sequence number (the first data byte is 1).
    pub subflow_seq: u32,
    /// Length in bytes; 0 means an infinite mapping (RFC 8684 §3.7). A `DATA_FIN` adds one.
    pub len: u16,
    /// Checksum over the pseudo-header and the data, if both ends have negotiated checksums.
    pub checksum: Option<DataChecksum>,
}

impl DataNumber {
    /// Length in bytes: 4 or 8.
    pub const fn wire_len(self) -> u32 {
        match self {
            Self::Short(_) => 4,
            Self::Long(_) => 8,
        }
    }

    /// The 64-bit number: itself, or the one nearest to `near` with these low 32 bits (RFC 8684 §3.3.1).
    pub const fn unwrap_near(self, near: u64) -> u64 {
        match self {
            Self::Short(low) => crate::seq::Serial(low).unwrap_near(near),
            Self::Long(number) => number,
        }
    }

    fn emit(self, out: &mut Vec<u8>) {
        match self {
            Self::Short(low) => out.extend_from_slice(&low.to_be_bytes()),
            Self::Long(number) => out.extend_from_slice(&number.to_be_bytes()),
        }
    }

    fn parse(reader: &mut Reader<'_>, long: bool) -> Result<Self, ParseError> {
        if long { reader.u64().map(Self::Long) } else { reader.u32().map(Self::Short) }
    }
}

impl Dss {
    /// Length of the option, bytes, without padding: 4 to 28.
    pub const fn wire_len(&self) -> u32 {
        let ack = match self.data_ack {
            Some(number) => number.wire_len(),
            None => 0,
        };
        let mapping = match self.mapping {
            Some(mapping) => mapping.dsn.wire_len() + 6 + 2 * mapping.checksum.is_some() as u32,
            None => 0,
        };
        4 + ack + mapping
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let ack = match self.data_ack {
            None => 0,
            Some(DataNumber::Short(_)) => ACK,
            Some(DataNumber::Long(_)) => ACK | LONG_ACK,
        };
        let mapping = match self.mapping.map(|mapping| mapping.dsn) {
            None => 0,
            Some(DataNumber::Short(_)) => MAPPING,
            Some(DataNumber::Long(_)) => MAPPING | LONG_DSN,
        };
        out.extend_from_slice(&head(self.wire_len(), subtype::DSS, 0));
        let data_fin = if self.data_fin { DATA_FIN } else { 0 };
        out.push(ack | mapping | data_fin);
        if let Some(number) = self.data_ack {
            number.emit(out);
        }
        if let Some(mapping) = self.mapping {
            mapping.dsn.emit(out);
            out.extend_from_slice(&mapping.subflow_seq.to_be_bytes());
            out.extend_from_slice(&mapping.len.to_be_bytes());
            if let Some(checksum) = mapping.checksum {
                out.extend_from_slice(&checksum.wire().to_be_bytes());
            }
        }
    }

    pub(super) fn parse(option: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::Mptcp(subtype::DSS), option);
        let [_, _, _, flags] = reader.array()?;
        let data_ack = if flags & ACK == 0 {
            None
        } else {
            Some(DataNumber::parse(&mut reader, flags & LONG_ACK != 0)?)
        };
        let mapping = if flags & MAPPING == 0 {
            None
        } else {
            Some(Mapping {
                dsn: DataNumber::parse(&mut reader, flags & LONG_DSN != 0)?,
                subflow_seq: reader.u32()?,
                len: reader.u16()?,
                // The option's length determines whether there is a checksum.
                checksum: if reader.rest().is_empty() {
                    None
                } else {
                    Some(DataChecksum::Known(reader.u16()?))
                },
            })
        };
        if !reader.rest().is_empty() {
            return Err(wrong_length(subtype::DSS, option));
        }
        Ok(Self { data_ack, mapping, data_fin: flags & DATA_FIN != 0 })
    }
}

/// The checksum of a segment's mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataChecksum {
    /// A computed checksum.
    Known(u16),
    /// The sum of the pseudo-header, if the sender has no payload bytes and the mapping covers the segment's
    /// own payload. The checksum is computed when the segment is written, or by
    /// [`Packet::settle`](crate::Packet::settle).
    Pending(u16),
}

impl DataChecksum {
    /// The pending checksum of a mapping of the segment's own payload; see [`dss_checksum`].
    pub fn pending(dsn: u64, subflow_seq: u32, len: u16) -> Self {
        Self::Pending(!dss_pseudo_header(dsn, subflow_seq, len).finish())
    }

    /// The checksum, given the sum of the segment's payload.
    #[must_use]
    pub fn over(self, payload: Checksum) -> u16 {
        match self {
            Self::Known(value) => value,
            Self::Pending(sum) => Checksum::new().bytes(&sum.to_be_bytes()).followed_by(payload).finish(),
        }
    }

    /// The value that is written before the payload is known.
    pub(super) const fn wire(self) -> u16 {
        match self {
            Self::Known(value) => value,
            Self::Pending(_) => 0,
        }
    }
}

/// The sum over the pseudo-header of a mapping; see [`dss_checksum`].
pub fn dss_pseudo_header(dsn: u64, subflow_seq: u32, len: u16) -> Checksum {
    Checksum::new()
        .bytes(&dsn.to_be_bytes())
        .bytes(&subflow_seq.to_be_bytes())
        .bytes(&len.to_be_bytes())
        .bytes(&[0, 0])
}

/// The checksum of a mapping (RFC 8684 §3.3.1): over a pseudo-header of the full 64-bit data sequence number, the
/// relative subflow sequence number, the data-level length and a zero, then over the data.
///
/// `data` is the sum over the mapping's payload: [`Checksum::bytes`] if there are bytes, otherwise
/// [`Checksum::pattern`]. A receiver compares the received checksum with this value, or includes it in the
/// sum and compares with zero.
pub fn dss_checksum(dsn: u64, subflow_seq: u32, len: u16, data: Checksum) -> u16 {
    dss_pseudo_header(dsn, subflow_seq, len).followed_by(data).finish()
}
