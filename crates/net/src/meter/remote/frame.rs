//! The wire format of messages between two meters.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |               Tag             |              Number           |
//! |            (32 bits)          |             (32 bits)         |
//! +-------------------------------+-------------------------------+
//! |                             Length (64 bits)                  |
//! +---------------------------------------------------------------+
//! |                       Made at (64 bits, ns)                   |
//! +---------------------------------------------------------------+
//! |                         Pattern, to the length                |
//! ```
//!
//! All in little-endian order. The header is part of the message: a message of 1,400 bytes has 1,400 bytes on
//! the wire. A message that is shorter than the header is sent with the header's length; its length field has
//! the original one.

use anabranch_base::time::Time;
use anabranch_wire::Payload;

/// Length of the header, bytes.
pub const HEADER_BYTES: usize = 24;

/// Distance between datagrams in the pattern: more than the longest datagram.
const DATAGRAM_STRIDE: u64 = 1 << 16;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Identifies the test.
    pub tag: u32,
    /// Number of messages before this one, modulo 2^32.
    pub number: u32,
    /// Length of the application's message, bytes.
    pub len: u64,
    /// Time at which the application had the message ready, by the clock of its end.
    pub born: Time,
}

impl Header {
    /// The bytes.
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.tag.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..].copy_from_slice(&self.born.as_nanos().to_le_bytes());
        bytes
    }

    /// Parses these bytes.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from_le_bytes(core::array::from_fn(|byte| bytes[at + byte]));
        Self { tag: word(0), number: word(4), len: long(8), born: Time::from_nanos(long(16)) }
    }

    /// The header of a message on the wire, if it belongs to the test with this tag and has its whole length.
    pub fn of_message(bytes: &[u8], tag: u32) -> Option<Self> {
        let header = bytes.first_chunk().map(Self::parse)?;
        (header.tag == tag && header.wire_len() == bytes.len() as u64).then_some(header)
    }

    /// The content of a datagram or message behind the header.
    pub fn content(&self) -> Payload {
        Payload::new(u64::from(self.number) * DATAGRAM_STRIDE, (self.wire_len() - HEADER_BYTES as u64) as u32)
    }

    /// Bytes on the wire, the header included.
    pub fn wire_len(&self) -> u64 {
        self.len.max(HEADER_BYTES as u64)
    }
}

/// The sentence for a received message that is not the sent one.
pub fn mismatch_message(number: u32) -> String {
    format!("message {number} differs from the sent one")
}

/// Length of the greeting, with which the two ends of a connection identify their test.
pub const GREETING_BYTES: usize = 16;

/// The first bytes of a greeting.
pub const GREETING_MARK: &[u8; 4] = b"ab-m";

/// The greeting of a flow in a test.
pub fn greeting(cookie: u64, flow: u32) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..4].copy_from_slice(GREETING_MARK);
    bytes[4..8].copy_from_slice(&flow.to_le_bytes());
    bytes[8..].copy_from_slice(&cookie.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips_and_sets_the_minimum_length() {
        let header = Header { tag: 7, number: u32::MAX, len: 5, born: Time::from_nanos(1 << 40) };
        assert_eq!(Header::parse(&header.emit()), header);
        assert_eq!(header.wire_len(), 24);
        assert_eq!(Header { len: 1400, ..header }.wire_len(), 1400);
    }

    #[test]
    fn greetings_differ_by_test_and_flow() {
        assert_ne!(greeting(1, 0), greeting(1, 1));
        assert_ne!(greeting(1, 0), greeting(2, 0));
    }
}
