//! Schedulers: from the new data and the states of the paths, they select the path of the next packet, or none.

mod ahead;
mod blest;
mod consn;
mod ecf;
mod entry;
pub mod information;
mod linux;
mod linux_ahead;
mod lowest_rtt;
mod nca;
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
pub use information::{KnownPath, LinkInformation, PathInformation};
pub use registry::{SCHEDULERS, all, find, register};
pub use weighted::Credits;

use crate::PathId;
use crate::buffer::RangeSet;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use core::fmt::Debug;

/// State of a path, copied for one decision of a scheduler.
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
    /// Number of bytes that the path may send now: both its congestion window and the peer permit them.
    pub queueable: u64,
    /// Number of bytes that the path was given and that have not been acknowledged, including lost bytes and those that
    /// arrived out of order.
    pub queued: u64,
    /// True while a loss or a timeout is being repaired.
    pub recovering: bool,
    /// Smoothed round-trip time; `None` before the first measurement.
    pub srtt: Option<Duration>,
    /// Mean deviation of the round-trip time (RTTVAR of RFC 6298).
    pub rtt_variation: Duration,
    /// Slow-start threshold, bytes. Set only if the scheduler's [`Entry`] requests rates.
    pub ssthresh: u64,
    /// Pacing rate of the congestion control; `None` if it does not pace. Set only if the scheduler's [`Entry`]
    /// requests rates.
    pub pacing_rate: Option<Rate>,
    /// Largest payload of one packet, bytes.
    pub mss: u32,
}

impl PathState {
    /// An established path without data, threshold, pacing and deviations of the round-trip time. The peer permits the
    /// whole window; a packet has 1000 bytes.
    pub const fn new(id: PathId, cwnd: u64, srtt: Duration) -> Self {
        Self {
            id,
            usable: true,
            backup: false,
            cwnd,
            outstanding: 0,
            queueable: cwnd,
            queued: 0,
            recovering: false,
            srtt: Some(srtt),
            rtt_variation: Duration::ZERO,
            ssthresh: u64::MAX,
            pacing_rate: None,
            mss: 1000,
        }
    }
}

/// New data, for which the scheduler selects a path.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Time of the decision.
    pub now: Time,
    /// Number of bytes that have not been sent yet.
    pub bytes: u64,
    /// Number of further bytes that the connection's receive window admits.
    pub window: u64,
    /// Maximum number of unacknowledged bytes in the whole connection: the receive window, or the send buffer if that
    /// is smaller.
    pub send_window: u64,
    /// True if this data has been sent before. Later data may have to wait for it, so a scheduler does not delay it in
    /// order to use a better path.
    pub repeated: bool,
}

impl Offer {
    /// True if there is no data to send, or if the receive window admits none.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0 || self.window == 0
    }
}

/// A scheduler's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The next packet is sent on this path.
    Send(PathId),
    /// No path should send now. The caller tries again after the next event.
    Wait,
}

/// Input of a scheduler that places data ([`Entry::places`]). Offsets are positions in the stream.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// Time of the decision.
    pub now: Time,
    /// Offset of the lowest byte that has not been acknowledged.
    pub una: u64,
    /// End of the data that may be sent: the end of the receive window, or of the written data if that comes first.
    pub end: u64,
    /// True if the receive window ends at `end` before the data does, and data is in flight. A piece at the end may
    /// then wait until the window admits a whole packet (sender-side silly window avoidance, RFC 9293 §3.8.6.2.1).
    pub more: bool,
    /// Data above `una` that subflows have acknowledged.
    pub arrived: &'a RangeSet,
}

/// A range of data that a path is to send, at most a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The path.
    pub path: PathId,
    /// Start of the range in the stream.
    pub start: u64,
    /// End of the range in the stream.
    pub end: u64,
    /// True if all bytes of the piece have been sent before, on other paths.
    pub repeated: bool,
}

/// A scheduler of one connection.
pub trait Scheduler: Debug + Send {
    /// Returns the name used in scenarios.
    fn name(&self) -> &'static str;
    /// Selects the path of the next packet of the offered data. If no path has room, it returns [`Decision::Wait`] and
    /// leaves the scheduler's state unchanged, so the caller may skip the call.
    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision;
    /// True if each path carries all the data (`redundant`). The transport then calls the scheduler for each path
    /// separately, with the data that this path has not carried yet.
    fn duplicates(&self) -> bool {
        false
    }
    /// Returns the data that is sent next, and its path; `None` if no data should be sent now. Called instead of
    /// [`select`](Self::select) if the scheduler's [`Entry`] [places](Entry::places) data. Data of failed paths, which
    /// may be lost, is not placed: [`select`](Self::select) selects its path.
    fn place(&mut self, data: &Data<'_>, paths: &[PathState]) -> Option<Piece> {
        let _ = (data, paths);
        None
    }
    /// True if [`place`](Self::place) has returned `None` and would do so again. The transport need not call it before
    /// the next event.
    fn is_exhausted(&self) -> bool {
        false
    }
    /// Records a reinjection of data that may have been lost, on the path that [`select`](Self::select) has selected.
    /// The scheduler then treats this data as placed on this path. `path` is the state of the path before the
    /// reinjection; `range` is the range of the stream.
    fn on_reinjection(&mut self, now: Time, path: &PathState, range: (u64, u64)) {
        let _ = (now, path, range);
    }
    /// The characteristics of a path, or that they are unknown.
    fn on_information(&mut self, path: PathId, information: Option<PathInformation>) {
        let _ = (path, information);
    }
    /// Whether the scheduler gives no data to a usable path at present. The path then needs no share of a buffer.
    fn leaves_out(&self, path: PathId) -> bool {
        let _ = path;
        false
    }
    /// Whether the paths in use were chosen so that their data fits the receive buffer. A path that holds up data is then not
    /// penalised.
    fn fits_buffer(&self) -> bool {
        false
    }
    /// Reports that the receive window or the send buffer is full although paths have room.
    fn on_blocked(&mut self) {}
}

/// True if `path` may carry a packet: it is usable, it has room, and it is not a backup while a regular path is usable.
pub fn eligible(path: &PathState, paths: &[PathState]) -> bool {
    path.queueable > 0 && takes_part(path, paths)
}

/// True if a path is usable, and is not a backup while a regular path is usable.
fn takes_part(path: &PathState, paths: &[PathState]) -> bool {
    path.usable && (!path.backup || !paths.iter().any(|p| p.usable && !p.backup))
}

/// True if a path has no room only because its window is full, so an acknowledgement will make room: the window did not
/// shrink, and there was no loss (strict variants of Becke2014 §7.4). False for a path whose window admits a packet,
/// but on which another mechanism forbids to send (its share of a buffer, or a burst limit). Such a path is skipped,
/// and the next path is tried (Becke2014 §7.2.1).
fn is_merely_filled(path: &PathState) -> bool {
    let packet = u64::from(path.mss);
    path.queueable == 0
        && path.outstanding > 0
        && !path.recovering
        && path.outstanding + packet > path.cwnd
        && path.outstanding < path.cwnd + packet
}
