//! Schedulers: given new data and the paths' states, which path carries the next packet, or none.

mod entry;
mod lowest_rtt;
mod redundant;
mod registry;
mod round_robin;
#[cfg(test)]
mod tests;
mod weighted;

pub use entry::Entry;
pub use registry::{SCHEDULERS, find};

use crate::PathId;
use crate::time::{Duration, Time};
use core::fmt::Debug;

/// What a scheduler may know of a path: a copy, made for this question.
#[derive(Clone, Copy, Debug)]
pub struct PathState {
    /// Which path.
    pub id: PathId,
    /// Established and not believed to have failed.
    pub usable: bool,
    /// To be used only while no other path is usable (MP_PRIO, RFC 8684 §3.3.8).
    pub backup: bool,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub outstanding: u64,
    /// Bytes that congestion window and peer allow the path to send now.
    pub queueable: u64,
    /// Smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// Largest payload of one packet, bytes.
    pub mss: u32,
}

/// New data that wants a path.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Now.
    pub now: Time,
    /// Bytes that may still be sent.
    pub bytes: u64,
    /// Bytes that the connection's receive window still admits.
    pub window: u64,
}

impl Offer {
    /// Nothing to send, or nothing that the receive window admits.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0 || self.window == 0
    }
}

/// A scheduler's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The next packet goes out on this path.
    Send(PathId),
    /// No path can send now; ask again when something changes.
    Wait,
}

/// A scheduler of one connection.
pub trait Scheduler: Debug + Send {
    /// The name used in scenarios.
    fn name(&self) -> &'static str;
    /// Which path carries the next packet of the offered data.
    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision;
    /// Whether each path carries all the data (`redundant`): then the transport offers every path the data
    /// that this path has not carried yet, one path at a time.
    fn duplicates(&self) -> bool {
        false
    }
}

/// Whether `path` may carry a packet at all, given its siblings: usable, with room, and not a backup while a
/// regular path lives.
pub fn eligible(path: &PathState, paths: &[PathState]) -> bool {
    path.usable && path.queueable > 0 && (!path.backup || !paths.iter().any(|p| p.usable && !p.backup))
}
