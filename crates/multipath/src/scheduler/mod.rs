//! Schedulers: given new data and the paths' states, which path carries the next packet, or none.

mod ahead;
mod blest;
mod consn;
mod ecf;
mod entry;
mod linux;
mod linux_ahead;
mod lowest_rtt;
mod otias;
mod redundant;
mod registry;
mod round_robin;
mod strict_lowest_rtt;
mod strict_round_robin;
#[cfg(test)]
mod tests;
mod weighted;

pub use entry::Entry;
pub use registry::{SCHEDULERS, find};

use crate::PathId;
use crate::buffer::RangeSet;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
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
    /// Bytes given to the path that it has not got acknowledged, those that are lost or acknowledged out of order included.
    pub queued: u64,
    /// A loss or a timeout is being repaired.
    pub recovering: bool,
    /// Smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// Mean deviation of the round-trip time (RTTVAR of RFC 6298).
    pub rtt_variation: Duration,
    /// Slow-start threshold, bytes, and the rate that the congestion control paces at, if it does; only for a scheduler whose
    /// [`Entry`] asks for rates.
    pub ssthresh: u64,
    /// See [`ssthresh`](Self::ssthresh).
    pub pacing_rate: Option<Rate>,
    /// Largest payload of one packet, bytes.
    pub mss: u32,
}

/// Data that wants a path.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Now.
    pub now: Time,
    /// Bytes that may still be sent.
    pub bytes: u64,
    /// Bytes that the connection's receive window still admits.
    pub window: u64,
    /// Bytes that may be unacknowledged at once in the whole connection: the receive window from its left edge on, or the send
    /// buffer if that is smaller.
    pub send_window: u64,
    /// It has been sent before. Others may wait for it already, so that a scheduler does not make it wait for a better path.
    pub repeated: bool,
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

/// What a scheduler that places data ([`Entry::places`]) is told of it. Offsets are those of the stream.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// Now.
    pub now: Time,
    /// The lowest byte that is not acknowledged.
    pub una: u64,
    /// What may be sent ends here: the receive window, or what has been written.
    pub end: u64,
    /// The window ends here, not the data, and something is on its way: a piece at the end may wait until the window has
    /// opened for all of a packet (sender-side silly window avoidance, RFC 9293 §3.8.6.2.1).
    pub more: bool,
    /// What subflows have got acknowledged beyond `una`.
    pub arrived: &'a RangeSet,
}

/// Data for a path: at most a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which path.
    pub path: PathId,
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// All of it has been placed before, on other paths.
    pub repeated: bool,
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
    /// Which data goes out next and on which path, or nothing for now; asked in the place of [`select`](Self::select) if the
    /// scheduler's [`Entry`] says that it [places](Entry::places) data. What was sent and may be lost, its path having failed,
    /// is not placed: [`select`](Self::select) says who gets that.
    fn place(&mut self, data: &Data<'_>, paths: &[PathState]) -> Option<Piece> {
        let _ = (data, paths);
        None
    }
    /// [`place`](Self::place) has given nothing, and would give nothing again if it were asked the same once more: the transport
    /// need not ask before something happens.
    fn is_exhausted(&self) -> bool {
        false
    }
    /// What may have been lost leaves once more, on the path that [`select`](Self::select) has chosen for it: that has it as if it
    /// had been placed there. `path` is as it was before, and `range` from where to where in the stream.
    fn on_reinjection(&mut self, now: Time, path: &PathState, range: (u64, u64)) {
        let _ = (now, path, range);
    }
    /// The receive window or the send buffer is full, although paths have room.
    fn on_blocked(&mut self) {}
}

/// Whether `path` may carry a packet at all, given its siblings: usable, with room, and not a backup while a
/// regular path lives.
pub fn eligible(path: &PathState, paths: &[PathState]) -> bool {
    path.queueable > 0 && takes_part(path, paths)
}

/// Usable, and not a backup while a regular path lives.
fn takes_part(path: &PathState, paths: &[PathState]) -> bool {
    path.usable && (!path.backup || !paths.iter().any(|p| p.usable && !p.backup))
}

/// The fastest path, which may be waited for if it has no room: something is on its way there, so that an acknowledgement or
/// a timeout will come. (A path without room or anything on its way is held by a buffer, and might be for ever.)
fn fastest_of_all(paths: &[PathState]) -> Option<&PathState> {
    let part = |path: &&PathState| takes_part(path, paths) && (path.queueable > 0 || path.outstanding > 0);
    paths.iter().filter(part).filter(|path| path.srtt.is_some()).min_by_key(|path| path.srtt)
}

/// The path has no room for now because its window is filled, and neither because that shrank nor because of a loss (strict
/// readings of Becke2014 §7.4). An acknowledgement will make room. A path whose window does admit a packet, but that a mechanism
/// refuses (its share of a buffer, a limit of bursts), is skipped: the next one gets its turn (Becke2014 §7.2.1).
fn is_merely_filled(path: &PathState) -> bool {
    let packet = u64::from(path.mss);
    path.queueable == 0
        && path.outstanding > 0
        && !path.recovering
        && path.outstanding + packet > path.cwnd
        && path.outstanding < path.cwnd + packet
}
