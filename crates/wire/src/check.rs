//! Checks of packets whose payload follows a fixed pattern: encodes a packet, parses the bytes, and compares the result
//! with the packet.

use crate::content::{Buffer, Pattern};
use crate::error::{EncodeError, ParseError};
use crate::packet::{Body, Packet};
use crate::payload::Payload;
use crate::sctp::{self, encapsulation};
use core::fmt;

/// A difference between a packet and its encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckError {
    /// The packet has no encoding.
    Encode(EncodeError),
    /// `wire_len()` differs from the length of the encoding.
    Length {
        /// Length that `wire_len()` returned, bytes.
        expected: u32,
        /// Length of the encoding, bytes.
        written: usize,
    },
    /// The encoding does not parse.
    Parse(ParseError),
    /// Parsing gave another packet.
    Value {
        /// The packet that was encoded.
        packet: Box<Packet>,
        /// The packet that parsing returned.
        parsed: Box<Packet>,
    },
    /// The payload differs from the pattern of its position in the stream.
    Payload {
        /// The payload: 0, or with SCTP its index among the packet's payloads.
        payload: usize,
        /// The first byte of the payload that differs.
        at: usize,
    },
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encode(error) => write!(f, "the packet has no encoding: {error}"),
            Self::Length { expected, written } => {
                write!(f, "wire_len() is {expected} bytes, but the encoding has {written}")
            }
            Self::Parse(error) => write!(f, "the encoding does not parse: {error}"),
            Self::Value { packet, parsed } => write!(f, "{packet:?} was parsed as {parsed:?}"),
            Self::Payload { payload, at } => {
                write!(f, "byte {at} of payload {payload} differs from the pattern")
            }
        }
    }
}

impl core::error::Error for CheckError {}

/// Encodes a packet into `scratch`, whose contents are replaced, parses the bytes and compares: every field, every
/// payload byte, and the length with [`Packet::wire_len`].
///
/// # Errors
/// The first difference found.
pub fn check(packet: &Packet, scratch: &mut Vec<u8>) -> Result<(), CheckError> {
    encode(packet, scratch)?;
    let mut packet = packet.clone();
    let mut parsed = parse(&packet, scratch)?;
    packet.settle(&Pattern);
    let difference = compare_payloads(&mut packet, &mut parsed, scratch);
    if packet != parsed {
        let (packet, parsed) = (Box::new(packet), Box::new(parsed));
        return Err(CheckError::Value { packet, parsed });
    }
    difference.map_or(Ok(()), |(payload, at)| Err(CheckError::Payload { payload, at }))
}

/// Encodes a packet into `bytes`, whose contents are replaced.
///
/// # Errors
/// The packet has no encoding, or one of another length than [`Packet::wire_len`].
pub fn encode(packet: &Packet, bytes: &mut Vec<u8>) -> Result<(), CheckError> {
    packet.validate().map_err(CheckError::Encode)?;
    bytes.clear();
    packet.emit(bytes);
    let expected = packet.wire_len();
    if expected as usize == bytes.len() {
        Ok(())
    } else {
        Err(CheckError::Length { expected, written: bytes.len() })
    }
}

/// The packet that a receiver gets from these bytes, including their checksums. No header contains the
/// positions of the payloads in the sender's stream: the function takes them from the `sent` packet, if the
/// bytes are the pattern of these positions.
///
/// # Errors
/// The bytes do not parse, or a payload has other bytes.
pub fn receive(sent: &mut Packet, bytes: &[u8]) -> Result<Packet, CheckError> {
    let mut parsed = parse(sent, bytes)?;
    match compare_payloads(sent, &mut parsed, bytes) {
        Some((payload, at)) => Err(CheckError::Payload { payload, at }),
        None => Ok(parsed),
    }
}

/// Parses the encoding of a packet. A receiver with encapsulation knows its UDP port.
fn parse(packet: &Packet, bytes: &[u8]) -> Result<Packet, CheckError> {
    let parsed = match &packet.body {
        Body::Sctp(sctp::Packet { udp: Some(ports), .. }) => encapsulation::parse(bytes, ports.destination),
        _ => Packet::parse(bytes),
    };
    parsed.map_err(CheckError::Parse)
}

/// Sets the stream offsets of the parsed payloads, which no header contains, and compares their bytes with
/// the pattern there. Returns the first payload that differs or was not sent, and the index of the differing
/// byte. The comparison of the values detects all other differences.
fn compare_payloads(packet: &mut Packet, parsed: &mut Packet, bytes: &[u8]) -> Option<(usize, usize)> {
    let mut sent = Vec::new();
    packet.for_each_payload(|payload| sent.push(*payload));
    let (mut place, mut difference) = (0, None);
    parsed.for_each_payload(|read| {
        let sent = sent.get(place).copied().unwrap_or(Payload::EMPTY);
        let found = Buffer(bytes).bytes(*read);
        read.offset = sent.offset;
        difference = difference.or_else(|| sent.first_difference(found).map(|at| (place, at)));
        place += 1;
    });
    difference
}
