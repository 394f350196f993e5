//! Decisions for multipath transport, and their shared parts: time, random streams, units, round-trip times,
//! congestion control, schedulers, path managers and buffers. This crate has no connections or packets.

#![allow(
    clippy::doc_markdown,
    reason = "subscripts of formulas and protocol names such as MP_PRIO are not code"
)]

pub mod buffer;
pub mod congestion;
pub mod delivery;
pub mod pacing;
pub mod path_manager;
pub mod policy;
pub mod rtt;
pub mod scheduler;
pub mod shared_bottleneck;

/// A path (MPTCP subflow, SCTP destination) within one connection: a small index, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathId(pub u8);

/// Maximum number of paths of a connection, with any protocol. More are useless, and a peer must not be able
/// to make a host open any number of paths.
pub const MAX_PATHS: usize = 64;

impl PathId {
    /// The path as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
