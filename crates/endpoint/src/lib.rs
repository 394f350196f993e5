//! The contract between a protocol core and its driver.
//!
//! For authors of a driver (a simulator, a stack on a TUN device, a test bench) and of a core. Read [`Endpoint`] first: it
//! states the order of calls. Then read [`Driver`] and [`drive`], the loop that calls an endpoint in this order,
//! [`Event`] and [`Report`], and [`Ends`], which every core is created with.
//!
//! A core is a value that owns no clock, socket, thread or random source. It has no bytes either: it works with offsets
//! and lengths, and a driver of real packets keeps the bytes in [`Bytes`]:
//!
//! ```
//! use anabranch_endpoint::{Bytes, Place, Placement};
//! use anabranch_wire::{Buffer, Payload};
//!
//! // The application has written; a core sends bytes 6 to 11 and names them by offset.
//! let mut sender = Bytes::default();
//! sender.sent.write(b"hello, world");
//! let mut packet = [0; 5];
//! sender.fill(Payload::new(7, 5), &mut packet);
//! assert_eq!(&packet, b"world");
//!
//! // The receiving core has placed two payloads, in the order of their arrival. An offset in the packet names the bytes.
//! let mut receiver = Bytes::default();
//! for (offset, packet) in [(7, &b"world"[..]), (0, b"hello, ")] {
//!     let payload = Payload::new(0, packet.len() as u32);
//!     receiver.place(Placement { payload, place: Place::Stream { offset } }, Buffer(packet));
//! }
//! let mut read = Vec::new();
//! receiver.stream.read(0, 12, &mut read);
//! assert_eq!(read, b"hello, world");
//! ```
//!
//! The cores' crates (`anabranch-tcp`, `anabranch-sctp`) show two endpoints in exchange of packets, and `anabranch-host`
//! two hosts.

pub mod blocked;
pub mod bytes;
pub mod counters;
pub mod drive;
pub mod endpoint;
pub mod ends;
pub mod gap;
pub mod limits;
pub mod rate;
pub mod scheduling;
pub mod secrets;
pub mod wanted;

pub use blocked::Spent;
pub use bytes::{Bytes, Socket};
pub use drive::{Driver, drive};
pub use endpoint::{
    Arrival, Counters, DecisionReason, Delivery, Endpoint, Event, Gauge, Held, NetworkEvent, PathReport,
    Place, Placement, Quote, Reason, Reliability, Repeated, Report, SchedulingDecision, StreamChange,
    Unreachable, Write,
};
pub use ends::{Address, Ends};
pub use limits::{Limit, Limited, Limits};
pub use secrets::Secrets;
pub use wanted::{Obstacle, WantedPath};
