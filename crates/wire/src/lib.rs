//! Bytes and values: IP, UDP, TCP with the Multipath TCP options, SCTP chunks and pcapng.
//!
//! Every header, option and chunk is a plain value with an exact `wire_len()` and a codec. Parsing never panics.
//! Nothing here knows a connection, a clock or a simulator.

mod bytes;
pub mod check;
pub mod checksum;
pub mod error;
pub mod ip;
pub mod packet;
pub mod payload;
pub mod pcapng;
pub mod sctp;
pub mod seq;
pub mod tcp;
pub mod udp;

pub use check::{CheckError, check};
pub use checksum::Checksum;
pub use error::{EncodeError, Header, ParseError, Problem};
pub use packet::{Body, Ecn, Packet, Parsed};
pub use payload::Payload;
