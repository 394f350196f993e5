//! Bytes and values: IP, UDP, TCP with the Multipath TCP options, SCTP chunks and pcapng.
//!
//! Every header, option and chunk is a plain value with an exact `wire_len()` and a codec. Parsing never panics.
//! Nothing here knows a connection, a clock or a simulator.

pub mod error;
pub mod packet;
pub mod payload;
pub mod sctp;
pub mod seq;
pub mod tcp;
pub mod udp;

pub use error::{Header, ParseError, Problem};
pub use packet::{Body, Ecn, Packet};
pub use payload::Payload;
