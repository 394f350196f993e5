//! SCTP packets (RFC 9260): the common header and the chunks, one chunk a file.
//!
//! A chunk is a plain value with an exact `wire_len()`. DATA carries its payload as a range of the sender's
//! stream. So the chunks that a busy association exchanges own no heap memory (a SACK with gaps owns its list
//! of gaps), nor does a packet with one of them.

pub mod abort;
mod address;
pub mod asconf;
pub mod auth;
pub mod cause;
pub mod chunk;
mod chunks;
pub mod cookie;
pub mod data;
pub mod ecn;
pub mod encapsulation;
pub mod error;
pub mod forward_tsn;
pub mod heartbeat;
pub mod idata;
pub mod init;
pub mod kind;
pub mod network_control;
mod network_request;
pub mod nr_sack;
pub mod pad;
pub mod parameter;
#[cfg(test)]
mod proofs;
pub mod reconfig;
pub mod sack;
pub mod shutdown;
#[cfg(test)]
mod testing;
mod tlv;
pub mod unknown;

pub use abort::Abort;
pub use asconf::{Asconf, AsconfAck};
pub use auth::{Auth, HmacId, Secret};
pub use cause::Cause;
pub use chunk::Chunk;
pub use chunks::Chunks;
pub use cookie::CookieEcho;
pub use data::{Data, DataFlags};
pub use ecn::{CongestionEcho, CongestionReduced};
pub use error::Error;
pub use forward_tsn::{ForwardTsn, IForwardTsn, Skipped, SkippedMessage};
pub use heartbeat::Heartbeat;
pub use idata::IData;
pub use init::Init;
pub use network_control::NetworkControl;
pub use nr_sack::NrSack;
pub use pad::Pad;
pub use parameter::{AddressType, Parameter};
pub use reconfig::{Outcome, Reconfig, Reconfiguration};
pub use sack::{Duplicates, GapBlock, Sack, SackFlags};
pub use shutdown::{Shutdown, ShutdownComplete};
pub use unknown::{Action, Unknown};

use crate::content::Content;
use crate::error::{Header, ParseError, Problem};
use crate::payload::Payload;

/// UDP port of SCTP over UDP (RFC 6951 §4.1).
pub const UDP_PORT: u16 = 9899;

/// Length of the common header, bytes (RFC 9260 §3.1).
pub const HEADER_LEN: u32 = 12;

/// Length of a chunk's header, bytes: type, flags, length (RFC 9260 §3.2).
pub const CHUNK_HEADER_LEN: u32 = 4;

/// The length with the zero bytes that fill chunks and parameters up to a multiple of 4 (RFC 9260 §3.2).
pub const fn padded(len: u32) -> u32 {
    (len + 3) & !3
}

/// An SCTP packet: common header and chunks.
///
/// The protocol core decides which chunks may share a packet; here any order of chunks is a valid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Verification tag: the receiver's initiate tag, 0 in a packet with INIT.
    pub verification_tag: u32,
    /// Chunks, in order.
    pub chunks: Chunks,
    /// The UDP ports, if the packet is carried in UDP (RFC 6951).
    pub udp: Option<encapsulation::Ports>,
    /// True if routers may split the packet into IP fragments (IPv4 only). A retransmitted chunk keeps its size even
    /// if the path MTU has become smaller (RFC 9260 §7.3).
    pub may_fragment: bool,
    /// True if the checksum is zero because the lower layer detects damage (RFC 9653). Only a receiver that announced
    /// its support accepts such a packet.
    pub zero_checksum: bool,
}

impl Packet {
    /// Bytes on the wire: the common header and all chunks with their padding, without IP (and UDP) header.
    pub fn wire_len(&self) -> u32 {
        HEADER_LEN + self.chunks.iter().map(Chunk::wire_len).sum::<u32>()
    }

    /// True if all chunks are `DATA` or `I-DATA`.
    pub fn has_only_data(&self) -> bool {
        self.chunks.iter().all(|chunk| matches!(chunk, Chunk::Data(_) | Chunk::IData(_)))
    }
}

impl Packet {
    /// Appends the packet to `out`, every payload as the pattern of its stream offsets.
    ///
    /// # Panics
    ///
    /// If a chunk, parameter or cause is longer than the 65,535 bytes that its length field can express.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_with(out, &mut |payload, bytes| payload.fill(bytes));
    }

    /// Appends the packet to `out`, with payload bytes from `fill`: it is called for each `DATA` and `I-DATA`
    /// chunk in turn with a slice of the payload's length. Panics like [`Packet::emit`].
    pub fn emit_with(&self, out: &mut Vec<u8>, fill: &mut dyn FnMut(Payload, &mut [u8])) {
        let start = out.len();
        self.emit_unfinished(out, fill);
        let checksum = if self.zero_checksum { 0 } else { checksum(&out[start..]) };
        out[start + CHECKSUM_AT..start + HEADER_LEN as usize].copy_from_slice(&checksum.to_le_bytes());
    }

    /// As [`emit_with`](Self::emit_with), but the checksum is zero.
    pub(crate) fn emit_unfinished(&self, out: &mut Vec<u8>, fill: &mut dyn FnMut(Payload, &mut [u8])) {
        let start = out.len();
        out.reserve(self.wire_len() as usize);
        out.extend_from_slice(&self.source_port.to_be_bytes());
        out.extend_from_slice(&self.destination_port.to_be_bytes());
        out.extend_from_slice(&self.verification_tag.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        for chunk in &self.chunks {
            chunk.emit(out, fill);
        }
        self.write_code(&mut out[start + HEADER_LEN as usize..]);
    }

    /// Computes the pending code of an AUTH chunk in chunks that are otherwise written.
    fn write_code(&self, chunks: &mut [u8]) {
        let mut at = 0;
        for chunk in &self.chunks {
            if let Chunk::Auth(auth) = chunk
                && let Some(code) = auth.pending_code(&chunks[at..])
            {
                let at = at + Auth::HEADER_LEN as usize;
                chunks[at..at + code.len()].copy_from_slice(&code);
            }
            at += chunk.wire_len() as usize;
        }
    }

    /// Computes the pending code of an AUTH chunk.
    pub(crate) fn settle(&mut self, content: &dyn Content) {
        let pending = |chunk: &Chunk| matches!(chunk, Chunk::Auth(auth) if auth.secret.is_some());
        while let Some(at) = self.chunks.iter().rposition(pending) {
            let mut covered = Vec::new();
            for chunk in &self.chunks[at..] {
                chunk.emit(&mut covered, &mut |payload, bytes| content.copy(payload, bytes));
            }
            let Chunk::Auth(auth) = &mut self.chunks[at] else {
                unreachable!("the index is that of an AUTH chunk")
            };
            auth.code = auth.pending_code(&covered).unwrap_or_default();
            (auth.covered, auth.secret) = (covered.into(), None);
        }
    }

    /// Reads a packet that takes all of `bytes`. The payload offset of a `DATA` or `I-DATA` chunk is the
    /// index of its bytes in `bytes`.
    ///
    /// # Errors
    ///
    /// The checksum does not match (zero excepted, see [`Packet::zero_checksum`]), or a length is impossible.
    /// A chunk that the packet does not contain completely, with its padding, is dropped; the chunks before
    /// it are returned (RFC 9260 §6.10). A well-formed packet that breaks a rule of the protocol (no chunk at
    /// all, an initiate tag of 0, a chunk in a wrong place) is a value like any other: the core decides about
    /// the answer.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (mut packet, found, chunks) = Self::parse_header(bytes)?;
        let computed = checksum(bytes);
        packet.zero_checksum = found == 0 && computed != 0;
        if found != computed && !packet.zero_checksum {
            return Err(ParseError::new(Header::Sctp, CHECKSUM_AT, Problem::Checksum { found, computed }));
        }
        packet.parse_chunks(chunks)?;
        Ok(packet)
    }

    /// As [`parse`](Self::parse), but does not verify the checksum.
    pub(crate) fn parse_unverified(bytes: &[u8]) -> Result<Self, ParseError> {
        let (mut packet, _checksum, chunks) = Self::parse_header(bytes)?;
        packet.parse_chunks(chunks)?;
        Ok(packet)
    }

    /// Reads the chunks behind the common header.
    fn parse_chunks(&mut self, chunks: &[u8]) -> Result<(), ParseError> {
        let end = HEADER_LEN as usize + chunks.len();
        let mut rest = chunks;
        while !rest.is_empty() {
            let at = end - rest.len();
            let read = Chunk::parse(rest).map_err(|error| error.shifted(at))?;
            let Some((mut chunk, behind)) = read else { break };
            if let Some(payload) = chunk.payload_mut() {
                payload.offset += at as u64;
            }
            if let Chunk::Auth(auth) = &mut chunk {
                auth.set_covered(rest);
            }
            self.chunks.push(chunk);
            rest = behind;
        }
        Ok(())
    }
}

impl Packet {
    /// Reads a packet of `len` bytes of which a capture may lack the end; true if chunks are missing or malformed. `DATA`
    /// and `I-DATA` are complete without their payload. The checksum is not verified.
    ///
    /// # Errors
    ///
    /// If the common header is cut.
    pub(crate) fn parse_captured(bytes: &[u8], len: u32) -> Result<(Self, bool), ParseError> {
        let (mut packet, _checksum, mut rest) = Self::parse_header(bytes)?;
        let is_cut = (bytes.len() as u32) < len;
        while !rest.is_empty() {
            match Chunk::parse(rest) {
                Ok(Some((chunk, behind))) => {
                    packet.chunks.push(chunk);
                    rest = behind;
                }
                Ok(None) if is_cut => {
                    let Some((last, lacks_fields)) = Chunk::parse_cut(rest) else {
                        return Ok((packet, true));
                    };
                    packet.chunks.push(last);
                    return Ok((packet, lacks_fields));
                }
                Ok(None) | Err(_) => return Ok((packet, true)),
            }
        }
        Ok((packet, is_cut))
    }

    /// Reads the common header; returns the checksum and the bytes of the chunks, too.
    fn parse_header(bytes: &[u8]) -> Result<(Self, u32, &[u8]), ParseError> {
        let Some((header, chunks)) = bytes.split_first_chunk::<{ HEADER_LEN as usize }>() else {
            let problem = Problem::Truncated { needed: HEADER_LEN as usize, available: bytes.len() };
            return Err(ParseError::new(Header::Sctp, 0, problem));
        };
        let [s0, s1, d0, d1, t0, t1, t2, t3, c0, c1, c2, c3] = *header;
        let packet = Self {
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
            verification_tag: u32::from_be_bytes([t0, t1, t2, t3]),
            chunks: Chunks::new(),
            udp: None,
            may_fragment: false,
            zero_checksum: false,
        };
        Ok((packet, u32::from_le_bytes([c0, c1, c2, c3]), chunks))
    }
}

/// Offset of the checksum in the common header.
const CHECKSUM_AT: usize = 8;

/// The `CRC32c` of a whole packet, its checksum field taken as zero (RFC 9260 §6.8). On the wire its least significant
/// byte comes first (RFC 9260 appendix A).
fn checksum(packet: &[u8]) -> u32 {
    let (before, rest) = packet.split_at(CHECKSUM_AT);
    let crc = crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4]);
    crc32c::crc32c_append(crc, &rest[4..])
}

#[cfg(test)]
mod tests;
