//! TCP segments (RFC 9293) with their options.
//!
//! ```text
//!  0                   1                   2                   3
//! +-------------------------------+-------------------------------+
//! |          Source Port          |       Destination Port        |
//! +-------------------------------+-------------------------------+
//! |                        Sequence Number                        |
//! |                    Acknowledgment Number                      |
//! +-------+-------+---------------+-------------------------------+
//! |Offset | Rsrvd |CWR ... FIN    |            Window             |
//! +-------+-------+---------------+-------------------------------+
//! |           Checksum            |         Urgent Pointer        |
//! +-------------------------------+-------------------------------+
//! |                           Options                             |
//! +---------------------------------------------------------------+
//! ```

mod codec;
pub mod mptcp;
pub mod options;
#[cfg(test)]
mod proofs;
#[cfg(test)]
mod tests;

pub use options::{Options, SackBlocks, Timestamps};

use crate::Payload;
use crate::bits::bit_set;
use crate::ip::option::IpOption;
use crate::seq::Serial;

/// Control bits (RFC 9293 §3.1), lowest bit first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement field is significant.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);
}

bit_set!(Flags);

/// A TCP segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number of the first payload byte (of the SYN, if set).
    pub seq: Serial,
    /// Next sequence number expected from the other side.
    pub ack: Serial,
    /// Control bits.
    pub flags: Flags,
    /// Receive window as on the wire, unscaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: Options,
    /// Payload.
    pub payload: Payload,
    /// Option in the IP header of the packet.
    pub ip_option: Option<Box<IpOption>>,
}

impl Segment {
    /// Length of the header without options, bytes (RFC 9293 §3.1).
    pub const MIN_HEADER_LEN: u32 = 20;

    /// Length of the header with its options, bytes: at most 60 for a segment that can be sent.
    pub fn header_len(&self) -> u32 {
        Self::MIN_HEADER_LEN + self.options.wire_len()
    }

    /// Exact length of the segment, header and payload, bytes.
    pub fn wire_len(&self) -> u32 {
        self.header_len() + self.payload.len
    }

    /// Number of sequence numbers that the segment occupies: payload, SYN and FIN.
    pub const fn sequence_len(&self) -> u32 {
        self.payload.len + self.flags.intersects(Flags::SYN) as u32 + self.flags.intersects(Flags::FIN) as u32
    }
}
