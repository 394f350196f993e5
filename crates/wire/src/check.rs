//! The checking mode: compares a packet with its own encoding.

use crate::content::{Buffer, Pattern};
use crate::error::{EncodeError, ParseError};
use crate::packet::{Body, Packet};
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
    /// The payload is not the pattern of its place in the stream.
    Payload {
        /// The payload: 0, or with SCTP its place among the packet's payloads.
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
    packet.validate().map_err(CheckError::Encode)?;
    scratch.clear();
    packet.emit(scratch);
    let expected = packet.wire_len();
    if expected as usize != scratch.len() {
        return Err(CheckError::Length { expected, written: scratch.len() });
    }
    let parsed = match &packet.body {
        Body::Sctp(sctp::Packet { udp: Some(ports), .. }) => encapsulation::parse(scratch, ports.destination),
        _ => Packet::parse(scratch),
    };
    let mut parsed = parsed.map_err(CheckError::Parse)?;
    let mut packet = packet.clone();
    packet.settle(&Pattern);
    let difference = compare_payloads(&mut packet, &mut parsed, scratch);
    if packet != parsed {
        let (packet, parsed) = (Box::new(packet), Box::new(parsed));
        return Err(CheckError::Value { packet, parsed });
    }
    match difference {
        Some((payload, at)) => Err(CheckError::Payload { payload, at }),
        None => Ok(()),
    }
}

/// Sets the stream offsets of the parsed payloads, which no header contains, and compares their bytes with
/// the pattern there. Returns the first payload that differs, and the place of the difference. All other
/// differences are left to the comparison of the values.
fn compare_payloads(packet: &mut Packet, parsed: &mut Packet, bytes: &[u8]) -> Option<(usize, usize)> {
    let mut sent = Vec::new();
    packet.for_each_payload(|payload| sent.push(*payload));
    let (mut place, mut difference) = (0, None);
    parsed.for_each_payload(|read| {
        if let Some(sent) = sent.get(place) {
            let found = Buffer(bytes).bytes(*read);
            read.offset = sent.offset;
            difference = difference.or_else(|| sent.first_difference(found).map(|at| (place, at)));
        }
        place += 1;
    });
    difference
}
