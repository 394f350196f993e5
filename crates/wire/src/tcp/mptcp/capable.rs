//! `MP_CAPABLE` (RFC 8684 §3.1).
//!
//! ```text
//! +---------------+---------------+-------+-------+---------------+
//! |     Kind      |    Length     |Subtype|Version|A|B|C|D|E|F|G|H|
//! +---------------+---------------+-------+-------+---------------+
//! |         Option Sender's Key (8; if length > 4)                |
//! |         Option Receiver's Key (8; if length > 12)             |
//! +-------------------------------+-------------------------------+
//! |  Data-Level Length (if > 20)  |  Checksum (if length = 24)    |
//! +-------------------------------+-------------------------------+
//! ```

use super::{DataChecksum, head, subtype, wrong_length};
use crate::bytes::Reader;
use crate::error::{EncodeError, Header, ParseError};

const CHECKSUM_REQUIRED: u8 = 0x80;
const EXTENSION: u8 = 0x40;
const NO_JOIN_HERE: u8 = 0x20;
const HMAC_SHA256: u8 = 0x01;

/// `MP_CAPABLE`. Its forms: no key (SYN), the sender's key (SYN/ACK), both keys (third segment), both keys
/// and `data`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capable {
    /// Protocol version, 1; 4 bits.
    pub version: u8,
    /// A: checksums required.
    pub checksum_required: bool,
    /// C: the sender will not accept subflows to this address and port.
    pub no_join_here: bool,
    /// H: HMAC-SHA256.
    pub hmac_sha256: bool,
    /// The sender's key: in SYN/ACK and later.
    pub sender_key: Option<u64>,
    /// The receiver's key: in the third segment and with data.
    pub receiver_key: Option<u64>,
    /// With the first data: data-level length, and the checksum if required.
    pub data: Option<CapableData>,
}

/// Length and checksum of the first data in `MP_CAPABLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapableData {
    /// Data-level length, bytes.
    pub len: u16,
    /// Checksum, if required.
    pub checksum: Option<DataChecksum>,
}

impl Capable {
    /// Length of the option, bytes: 4 on a SYN, 12 on a SYN/ACK, 20 on the third segment, 22 or 24 with data.
    pub const fn wire_len(&self) -> u32 {
        let data = match self.data {
            Some(data) => 2 + 2 * data.checksum.is_some() as u32,
            None => 0,
        };
        4 + 8 * self.sender_key.is_some() as u32 + 8 * self.receiver_key.is_some() as u32 + data
    }

    pub(super) fn validate(&self) -> Result<(), EncodeError> {
        if self.version > 0x0f {
            return Err(EncodeError::Value("MP_CAPABLE with a version of more than four bits"));
        }
        let form = (self.sender_key.is_some(), self.receiver_key.is_some(), self.data.is_some());
        match form {
            (false, false, false) | (true, _, false) | (true, true, true) => Ok(()),
            _ => Err(EncodeError::Value("MP_CAPABLE with an invalid combination of keys and data")),
        }
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        out.extend_from_slice(&head(self.wire_len(), subtype::CAPABLE, self.version));
        out.push(
            bit(self.checksum_required, CHECKSUM_REQUIRED)
                | bit(self.no_join_here, NO_JOIN_HERE)
                | bit(self.hmac_sha256, HMAC_SHA256),
        );
        for key in [self.sender_key, self.receiver_key].into_iter().flatten() {
            out.extend_from_slice(&key.to_be_bytes());
        }
        if let Some(data) = self.data {
            out.extend_from_slice(&data.len.to_be_bytes());
            if let Some(checksum) = data.checksum {
                out.extend_from_slice(&checksum.wire().to_be_bytes());
            }
        }
    }

    /// Reads the option; `None` if the extension flag B is set, with which it "MUST be silently ignored".
    pub(super) fn parse(option: &[u8]) -> Result<Option<Self>, ParseError> {
        let mut reader = Reader::new(Header::Mptcp(subtype::CAPABLE), option);
        let [_, _, third, flags] = reader.array()?;
        if flags & EXTENSION != 0 {
            return Ok(None);
        }
        let mut capable = Self {
            version: third & 0x0f,
            checksum_required: flags & CHECKSUM_REQUIRED != 0,
            no_join_here: flags & NO_JOIN_HERE != 0,
            hmac_sha256: flags & HMAC_SHA256 != 0,
            ..Self::default()
        };
        if !matches!(option.len(), 4 | 12 | 20 | 22 | 24) {
            return Err(wrong_length(subtype::CAPABLE, option));
        }
        if option.len() >= 12 {
            capable.sender_key = Some(reader.u64()?);
        }
        if option.len() >= 20 {
            capable.receiver_key = Some(reader.u64()?);
        }
        if option.len() >= 22 {
            let len = reader.u16()?;
            let checksum = if option.len() == 24 { Some(DataChecksum::Known(reader.u16()?)) } else { None };
            capable.data = Some(CapableData { len, checksum });
        }
        Ok(Some(capable))
    }
}
