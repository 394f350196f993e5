//! Encoding and decoding of segments.

use super::options::kind;
use super::{Flags, Options, Segment, mptcp};
use crate::bytes::Reader;
use crate::error::{EncodeError, Header, ParseError, Problem};
use crate::ip::{Addresses, protocol};
use crate::seq::Serial;
use crate::{Checksum, Content, Payload};

/// Offset of the checksum in the header.
const CHECKSUM_AT: usize = 16;

impl Segment {
    /// Checks that the segment has an encoding: its options are valid and fit.
    ///
    /// # Errors
    ///
    /// The field or value without an encoding.
    pub fn validate(&self) -> Result<(), EncodeError> {
        self.options.validate()
    }

    /// Appends header and payload with the correct checksum; `fill` writes the payload's bytes.
    ///
    /// # Panics
    /// If the segment does not [`validate`](Self::validate).
    pub fn emit_with(&self, addresses: Addresses, out: &mut Vec<u8>, fill: impl FnOnce(&mut [u8])) {
        if let Err(error) = self.validate() {
            panic!("{error}");
        }
        let start = out.len();
        let header_len = self.header_len();
        out.reserve((header_len + self.payload.len) as usize);
        out.extend_from_slice(&self.source_port.to_be_bytes());
        out.extend_from_slice(&self.destination_port.to_be_bytes());
        out.extend_from_slice(&self.seq.0.to_be_bytes());
        out.extend_from_slice(&self.ack.0.to_be_bytes());
        out.extend_from_slice(&[(header_len / 4) as u8 * 16, self.flags.0]);
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&self.urgent.to_be_bytes());
        self.options.emit(out);
        let payload_at = out.len();
        out.resize(payload_at + self.payload.len as usize, 0);
        fill(&mut out[payload_at..]);
        if !self.options.mptcp.is_empty() {
            self.write_data_checksum(&mut out[start..]);
        }
        let sum = addresses.pseudo_header(protocol::TCP, self.wire_len()).bytes(&out[start..]).finish();
        let at = start + CHECKSUM_AT;
        out[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// Computes the pending checksum of a mapping in a segment that is otherwise written. The checksum is at
    /// the end of its option.
    fn write_data_checksum(&self, segment: &mut [u8]) {
        let mut options = (*self.options.mptcp).clone();
        let Some((subtype, pending)) = options.pending_checksum() else { return };
        let (header, payload) = segment.split_at_mut(self.header_len() as usize);
        let value = pending.over(Checksum::new().bytes(payload));
        let mut at = Self::MIN_HEADER_LEN as usize;
        while at < header.len() {
            let len = if header[at] == kind::NOP { 1 } else { usize::from(header[at + 1]) };
            if header[at] == mptcp::KIND && header[at + 2] >> 4 == subtype {
                header[at + len - 2..at + len].copy_from_slice(&value.to_be_bytes());
            }
            at += len;
        }
    }

    /// Computes the pending checksum of the payload's mapping.
    pub fn settle(&mut self, content: &dyn Content) {
        if self.options.mptcp.is_empty() {
            return;
        }
        if let Some((_, pending)) = self.options.mptcp.pending_checksum() {
            *pending = mptcp::DataChecksum::Known(pending.over(content.sum(self.payload)));
        }
    }

    /// Reads a segment that takes all of `bytes`. The payload's offset is the index of its bytes in `bytes`;
    /// reserved bits are ignored.
    ///
    /// # Errors
    /// Truncated bytes, impossible lengths, malformed options, or a wrong checksum.
    pub fn parse(bytes: &[u8], addresses: Addresses) -> Result<Self, ParseError> {
        Self::parse_by(bytes, |found| {
            let pseudo_header = addresses.pseudo_header(protocol::TCP, bytes.len() as u32);
            if pseudo_header.bytes(bytes).finish() == 0 {
                return Ok(());
            }
            let (before, behind) = (&bytes[..CHECKSUM_AT], &bytes[CHECKSUM_AT + 2..]);
            let computed = pseudo_header.bytes(before).bytes(behind).finish();
            let problem = Problem::Checksum { found: found.into(), computed: computed.into() };
            Err(ParseError::new(Header::Tcp, CHECKSUM_AT, problem))
        })
    }

    /// As [`parse`](Self::parse), but does not verify the checksum.
    pub(crate) fn parse_unverified(bytes: &[u8]) -> Result<Self, ParseError> {
        Self::parse_by(bytes, |_| Ok(()))
    }

    /// Reads a segment; `verify` gets the checksum, before the options are read.
    fn parse_by(
        bytes: &[u8],
        verify: impl FnOnce(u16) -> Result<(), ParseError>,
    ) -> Result<Self, ParseError> {
        let (mut segment, found, header_len) = Self::parse_fixed(bytes)?;
        let Some((header, payload)) = bytes.split_at_checked(header_len) else {
            let problem = Problem::Truncated { needed: header_len, available: bytes.len() };
            return Err(ParseError::new(Header::Tcp, 12, problem));
        };
        verify(found)?;
        let options = &header[Self::MIN_HEADER_LEN as usize..];
        segment.options =
            Options::parse(options).map_err(|error| error.shifted(Self::MIN_HEADER_LEN as usize))?;
        segment.payload = Payload::new(header_len as u64, payload.len() as u32);
        Ok(segment)
    }

    /// Reads a segment of `len` bytes of which a capture may lack the end; true if options are missing or malformed.
    /// The checksum is not verified.
    ///
    /// # Errors
    /// A cut header without its options, or an impossible length.
    pub(crate) fn parse_captured(bytes: &[u8], len: u32) -> Result<(Self, bool), ParseError> {
        let (mut segment, _checksum, header_len) = Self::parse_fixed(bytes)?;
        let Some(payload_len) = len.checked_sub(header_len as u32) else {
            return Err(ParseError::new(Header::Tcp, 12, Problem::Length(header_len)));
        };
        let available = header_len.min(bytes.len());
        let read = segment.options.read(&bytes[Self::MIN_HEADER_LEN as usize..available]);
        segment.payload = Payload::new(header_len as u64, payload_len);
        Ok((segment, read.is_err() || available < header_len))
    }

    /// Reads the header without its options; returns the checksum and the length of the whole header, too.
    fn parse_fixed(bytes: &[u8]) -> Result<(Self, u16, usize), ParseError> {
        let mut reader = Reader::new(Header::Tcp, bytes);
        let mut segment = Self {
            source_port: reader.u16()?,
            destination_port: reader.u16()?,
            seq: Serial(reader.u32()?),
            ack: Serial(reader.u32()?),
            ..Self::default()
        };
        let [offset, flags] = reader.array()?;
        segment.flags = Flags(flags);
        segment.window = reader.u16()?;
        let checksum = reader.u16()?;
        segment.urgent = reader.u16()?;
        let header_len = usize::from(offset >> 4) * 4;
        if header_len < Self::MIN_HEADER_LEN as usize {
            return Err(ParseError::new(Header::Tcp, 12, Problem::Length(header_len)));
        }
        Ok((segment, checksum, header_len))
    }
}
