//! Schedulers: select the path of the next packet, or none, from the new data and the paths' states.

mod ahead;
mod blest;
mod consn;
mod ecf;
mod entry;
mod linux;
mod linux_ahead;
mod lowest_rtt;
mod otias;
mod pair;
mod redundant;
mod registry;
mod round_robin;
mod strict_lowest_rtt;
mod strict_round_robin;
#[cfg(test)]
mod tests;
mod weighted;

pub use entry::{Build, Entry};
pub use registry::{SCHEDULERS, all, find, register};
pub use weighted::Credits;

use crate::PathId;
use crate::buffer::RangeSet;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use core::fmt::Debug;

/// State of a path for a scheduler: a copy, made for one decision.
#[derive(Clone, Copy, Debug)]
pub struct PathState {
    /// The path.
    pub id: PathId,
    /// True if the path is established and not considered failed.
    pub usable: bool,
    /// True for a backup, which is used only while no other path is usable (MP_PRIO, RFC 8684 §3.3.8).
    pub backup: bool,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub outstanding: u64,
    /// Bytes that congestion window and peer allow the path to send now.
    pub queueable: u64,
    /// Bytes given to the path that are not acknowledged, including lost and out-of-order ones.
    pub queued: u64,
    /// True while a loss or a timeout is being repaired.
    pub recovering: bool,
    /// Smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// Mean deviation of the round-trip time (RTTVAR of RFC 6298).
    pub rtt_variation: Duration,
    /// Slow-start threshold, bytes, and the pacing rate of the congestion control, if it has one; set only if
    /// the scheduler's [`Entry`] requests rates.
    pub ssthresh: u64,
    /// See [`ssthresh`](Self::ssthresh).
    pub pacing_rate: Option<Rate>,
    /// Largest payload of one packet, bytes.
    pub mss: u32,
}

/// Data for which a path is selected.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Now.
    pub now: Time,
    /// Bytes that may still be sent.
    pub bytes: u64,
    /// Bytes that the connection's receive window still admits.
    pub window: u64,
    /// Maximum of unacknowledged bytes in the whole connection: the receive window from its left edge on, or
    /// the send buffer if that is smaller.
    pub send_window: u64,
    /// True if the data has been sent before. Later data may wait for it, so a scheduler does not delay it for a
    /// better path.
    pub repeated: bool,
}

impl Offer {
    /// Whether there is no data, or the receive window admits none.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0 || self.window == 0
    }
}

/// A scheduler's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The next packet is sent on this path.
    Send(PathId),
    /// No path can send now; the caller tries again after the next event.
    Wait,
}

/// Input of a scheduler that places data ([`Entry::places`]). Offsets are those of the stream.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// Now.
    pub now: Time,
    /// The lowest byte that is not acknowledged.
    pub una: u64,
    /// End of the data that may be sent: the receive window, or the written data.
    pub end: u64,
    /// True if the window, and not the data, ends at `end`, and data is in flight. A piece at the end may then wait
    /// until the window admits a whole packet (sender-side silly window avoidance, RFC 9293 §3.8.6.2.1).
    pub more: bool,
    /// Data beyond `una` that was acknowledged on subflows.
    pub arrived: &'a RangeSet,
}

/// Data for a path: at most a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The path.
    pub path: PathId,
    /// Start.
    pub start: u64,
    /// End of the range in the stream.
    pub end: u64,
    /// True if all bytes of the piece have been sent before, on other paths.
    pub repeated: bool,
}

/// A scheduler of one connection.
pub trait Scheduler: Debug + Send {
    /// The name used in scenarios.
    fn name(&self) -> &'static str;
    /// Selects the path of the next packet of the offered data. Without room on any path it returns [`Decision::Wait`] and
    /// does not change, so that it need not be called.
    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision;
    /// Whether each path carries all the data (`redundant`). The transport then offers every path, one at a
    /// time, the data that this path has not carried yet.
    fn duplicates(&self) -> bool {
        false
    }
    /// The data that is sent next and its path, or `None` for now. Called instead of [`select`](Self::select)
    /// if the scheduler's [`Entry`] [places](Entry::places) data. Data of failed paths, which may be lost, is
    /// not placed: [`select`](Self::select) chooses its path.
    fn place(&mut self, data: &Data<'_>, paths: &[PathState]) -> Option<Piece> {
        let _ = (data, paths);
        None
    }
    /// Whether [`place`](Self::place) has returned `None` and would return it again: the transport need not call it
    /// before the next event.
    fn is_exhausted(&self) -> bool {
        false
    }
    /// Reports a reinjection of data that may have been lost, on the path that [`select`](Self::select) has
    /// chosen. The scheduler then treats the data as placed on this path. `path` is the path's state before;
    /// `range` is the stream range.
    fn on_reinjection(&mut self, now: Time, path: &PathState, range: (u64, u64)) {
        let _ = (now, path, range);
    }
    /// Reports that the receive window or the send buffer is full although paths have room.
    fn on_blocked(&mut self) {}
}

/// Whether `path` may carry a packet, given the other paths: it is usable, has room, and is not a backup
/// while a regular path is usable.
pub fn eligible(path: &PathState, paths: &[PathState]) -> bool {
    path.queueable > 0 && takes_part(path, paths)
}

/// Whether the path is usable, and not a backup while a regular path is usable.
fn takes_part(path: &PathState, paths: &[PathState]) -> bool {
    path.usable && (!path.backup || !paths.iter().any(|p| p.usable && !p.backup))
}

/// Whether the path has no room only because its window is full: the window did not shrink and there was no loss
/// (strict variants of Becke2014 §7.4). An acknowledgement will make room. A path whose window admits
/// a packet, but that another mechanism refuses (its share of a buffer, a burst limit), is skipped, and the
/// next path is tried (Becke2014 §7.2.1).
fn is_merely_filled(path: &PathState) -> bool {
    let packet = u64::from(path.mss);
    path.queueable == 0
        && path.outstanding > 0
        && !path.recovering
        && path.outstanding + packet > path.cwnd
        && path.outstanding < path.cwnd + packet
}
