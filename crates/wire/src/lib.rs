//! Wire formats as values: IP, ICMP, UDP, TCP with the Multipath TCP options, SCTP chunks and pcapng.
//!
//! For authors of stacks, simulators and packet analysers. Read [`Packet`] first, then its [`Body`]: a
//! [`tcp::Segment`] with [`tcp::Options`], a packet of [`sctp`] chunks, a [`udp`] datagram or an [`icmp`] message.
//! [`Payload`] explains why a packet carries no bytes; [`check`] compares a packet with its encoding;
//! [`pcapng::Writer`] writes captures; [`captured::parse`] reads their packets, which may be cut or lack checksums.
//!
//! Every header, option and chunk is a plain value with an exact `wire_len()` and a codec. Parsing never
//! panics. This crate has no connections, clocks or simulators.
//!
//! A packet, its length, its bytes, and the packet that parsing them returns:
//!
//! ```
//! use anabranch_wire::tcp::{Flags, Segment};
//! use anabranch_wire::{Body, Buffer, Ecn, Packet, Payload};
//!
//! let segment = Segment { flags: Flags::ACK, payload: Payload::new(7_000, 1_460), ..Segment::default() };
//! let packet = Packet {
//!     source: [10, 0, 0, 1].into(),
//!     destination: [10, 0, 0, 2].into(),
//!     ecn: Ecn::Ect0,
//!     body: Body::Tcp(segment),
//! };
//! // A simulator needs no more than this of the bytes.
//! assert_eq!(packet.wire_len(), 1_500);
//! // A capture and a network do.
//! let mut bytes = Vec::new();
//! packet.emit(&mut bytes);
//! let parsed = Packet::parse(&bytes)?;
//! let Body::Tcp(segment) = parsed.body else { panic!("TCP") };
//! // No header contains the stream offset of a payload, but its bytes can be found.
//! assert_eq!(Buffer(&bytes).bytes(segment.payload)[0], Payload::byte(7_000));
//! # Ok::<(), anabranch_wire::ParseError>(())
//! ```
//!
//! An error names the header and the byte:
//!
//! ```
//! use anabranch_wire::Packet;
//!
//! let error = Packet::parse(&[0x45, 0, 0]).expect_err("three bytes of IPv4");
//! assert_eq!(error.to_string(), "IPv4 header at byte 0: 20 bytes needed, 3 available");
//! ```

mod bits;
mod bytes;
pub mod captured;
pub mod check;
pub mod checksum;
pub mod content;
mod ecn;
pub mod error;
pub mod gre;
pub mod icmp;
pub mod ip;
pub mod packet;
pub mod payload;
pub mod pcapng;
#[cfg(test)]
mod proofs;
pub mod sctp;
pub mod seldom;
pub mod seq;
pub mod tcp;
pub mod udp;

pub use check::{CheckError, check};
pub use checksum::Checksum;
pub use content::{Buffer, Content, Pattern};
pub use ecn::Ecn;
pub use error::{EncodeError, Header, ParseError, Problem};
pub use packet::{Body, Packet};
pub use payload::Payload;
pub use seldom::BoxedIfSet;
