//! Congestion control of a whole connection.
//!
//! A congestion control owns the windows of all paths of one connection, because a coupled one reads the state of every
//! path to grow the window of one. It gets events as small values, and [`CongestionControl::window`] returns the
//! result; it has no access to the connection. Windows are in bytes.

mod balia;
mod bbr;
mod cmt_rpv1;
mod cmt_rpv2;
pub mod conformance;
mod controller;
mod cubic;
mod entry;
mod group;
mod ledbat;
mod lia;
mod lia_2011;
mod olia;
mod rate;
mod registry;
mod reno;
mod shared;
mod vegas;
mod westwood;
mod wvegas;

pub use controller::{Algorithm, Controller, Reaction};
pub use entry::{Build, Couple, Entry, Options, Signal, SlowStart};
pub use group::{Group, Path, Undo, ceil_bytes};
pub use rate::{LostPacket, RateSample, Sent};
pub use registry::{ALGORITHMS, Choice, all, find, register};

use crate::PathId;
use crate::shared_bottleneck::{DelaySample, Grouping};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use core::fmt::Debug;

/// The standard whose rules apply to a path's window, where TCP and SCTP differ.
///
/// With both, congestion avoidance begins when the window reaches the threshold; RFC 5681 §3.1 leaves this case open.
/// RFC 9260 §7.2.1 stays in slow start while window and threshold are equal. That would give SCTP one more packet after
/// every loss, and 5 % more throughput than a competing TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// RFC 5681. A loss halves the data in flight, not a window that the application does not fill (eq. 4). A repeated
    /// timeout for the same data does not change the threshold (§3.1 after eq. 4). After an idle time, a path restarts
    /// from the initial window (§4.1).
    Tcp,
    /// RFC 9260 §7.2. Every loss and every timeout sets the threshold to half of the window (§7.2.3). After an idle
    /// time, the window is halved once for each timeout that fits into this time, down to the minimum threshold; the
    /// threshold is set to the previous window (§7.2.1).
    Sctp,
}

impl Rules {
    /// Returns the minimum slow-start threshold after an uncoupled loss reaction, in packets: 2 for TCP (RFC 5681 eq.
    /// 4), 4 for SCTP (RFC 9260 §7.2.3).
    pub const fn floor(self) -> u32 {
        match self {
            Self::Tcp => 2,
            Self::Sctp => 4,
        }
    }
}

/// Initial values of a path that joins a connection.
#[derive(Clone, Copy, Debug)]
pub struct PathSetup {
    /// Largest payload of one packet on the path, bytes.
    pub mss: u32,
    /// Window before the first acknowledgement, bytes.
    pub initial_window: u64,
    /// Slow-start threshold before the first loss, bytes; `u64::MAX` if there is none.
    pub initial_ssthresh: u64,
    /// The standard whose rules apply to the path's window.
    pub rules: Rules,
    /// Minimum threshold after an uncoupled loss reaction, in packets. [`Rules::floor`] is the value of the standard.
    /// Coupled congestion controls have another minimum.
    pub floor: u32,
    /// Maximum growth of the window per acknowledgement in slow start, in packets (L of RFC 3465 §2.2); `None` if the
    /// growth is limited only by the number of acknowledged packets. After a timeout, the maximum is always one packet
    /// (§2.3).
    pub abc_limit: Option<u32>,
    /// True if window and threshold are whole numbers of packets, as in Linux. Smaller increments are then added up
    /// until they make a whole packet.
    pub whole_packets: bool,
}

impl PathSetup {
    /// A path with a window of ten packets (RFC 6928 §2), no threshold, the floor of the standard, and a growth in slow
    /// start of at most one packet per acknowledgement (RFC 5681 §3.1).
    pub const fn new(rules: Rules, mss: u32) -> Self {
        Self {
            mss,
            initial_window: 10 * mss as u64,
            initial_ssthresh: u64::MAX,
            rules,
            floor: rules.floor(),
            abc_limit: Some(1),
            whole_packets: false,
        }
    }
}

/// An acknowledgement that newly and cumulatively acknowledges data of a path; in CMT, one that advances the path's
/// pseudo-cumulative TSN.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Time at which the acknowledgement arrived.
    pub now: Time,
    /// The path whose data the acknowledgement covers.
    pub path: PathId,
    /// Newly acknowledged bytes, α. With TCP outside of recovery, those that a selective acknowledgement reported before
    /// are left out.
    pub acked: u64,
    /// The round-trip time that this acknowledgement measured, if it measured one.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time of the path.
    pub srtt: Option<Duration>,
    /// True if the acknowledged data used enough of the window for it to grow. It filled the window (RFC 9260 §7.2.1), or,
    /// with TCP in slow start and limited by the application only, more than half of the window was outstanding
    /// (RFC 7661 §4.3).
    pub cwnd_limited: bool,
}

impl Ack {
    /// An acknowledgement of data that filled the window. It measured no round-trip time, and there was no measurement
    /// before.
    pub const fn new(now: Time, path: PathId, acked: u64) -> Self {
        Self { now, path, acked, rtt: None, srtt: None, cwnd_limited: true }
    }

    /// An acknowledgement of data that filled the window, with the first sample of the round-trip time.
    pub const fn timed(now: Time, path: PathId, acked: u64, rtt: Duration) -> Self {
        Self { rtt: Some(rtt), srtt: Some(rtt), ..Self::new(now, path, acked) }
    }
}

/// Threshold after the penalisation of a path in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyInSlowStart {
    /// Half of the previous threshold, as in congestion avoidance. A path without a threshold still has none
    /// afterwards, as in Linux in 2013.
    Unbounded,
    /// The window before the penalisation, because a window of this size blocked the connection.
    Bounded,
}

/// The signal by which the sender detected a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Duplicate acknowledgements or selective acknowledgements: a fast retransmission follows.
    FastRetransmit,
    /// An ECN echo (RFC 3168 §6.1.2): the window reacts, but nothing is retransmitted, and no recovery phase starts.
    Ecn,
}

/// A detected loss. At most one is reported per window of data and path.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Time at which the loss was detected.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// The signal.
    pub kind: LossKind,
    /// Bytes sent and not acknowledged at the time of the loss (FlightSize of RFC 5681). If this data filled the window
    /// when it was sent, the whole window instead: it is then validated (RFC 7661 §4.4.1), even if the application has
    /// sent no data since.
    pub in_flight: u64,
}

/// An expiry of the retransmission timer of a path.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    /// Time of the timeout.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// True if the timer had already expired for the same data. TCP then keeps its threshold (RFC 5681 §3.1 after eq.
    /// 4).
    pub repeated: bool,
    /// Bytes in flight, as in [`Loss::in_flight`].
    pub in_flight: u64,
}

/// The end of an idle time longer than the path's retransmission timeout: data is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Time of the event.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// Number of whole retransmission timeouts since the path's last transmission; at least one.
    pub timeouts: u32,
}

/// The congestion control of one connection, over all of its paths.
///
/// The transport adds each path once, and then reports events in the order in which they occur.
/// [`on_loss`](Self::on_loss) with [`LossKind::FastRetransmit`] starts a recovery phase, which
/// [`on_recovered`](Self::on_recovered) or [`on_timeout`](Self::on_timeout) ends. Acknowledgements in this phase are
/// reported as well, but do not grow the window.
///
/// If [`wants_rate_samples`](Self::wants_rate_samples) is true, the transport reports more events: each transmission of
/// a packet with data ([`on_sent`](Self::on_sent)), each packet that is marked lost ([`on_lost`](Self::on_lost)), and,
/// as the last event of an acknowledgement of newly delivered data, a sample ([`on_sample`](Self::on_sample)). If
/// [`wants_delay_samples`](Self::wants_delay_samples) is true, it reports each delay before the acknowledgement from
/// which it was measured.
pub trait CongestionControl: Debug + Send {
    /// Returns the name used in scenarios.
    fn name(&self) -> &'static str;
    /// Adds a path.
    fn add_path(&mut self, path: PathId, setup: PathSetup);
    /// Removes a path, so that sums no longer include it.
    fn remove_path(&mut self, path: PathId);
    /// Marks a path as usable, or as temporarily unusable (failed or backup). An unusable path keeps its window, which
    /// acknowledgements do not open; sums do not include the path.
    fn set_usable(&mut self, path: PathId, usable: bool);
    /// Changes the packet size of a path. Windows keep their number of bytes, with a minimum of one packet; values in
    /// packets are converted.
    fn set_mss(&mut self, path: PathId, mss: u32);
    /// Processes an acknowledgement. The window of a path that is unusable or in recovery does not grow.
    fn on_ack(&mut self, ack: &Ack);
    /// Processes a loss.
    fn on_loss(&mut self, loss: &Loss);
    /// Ends recovery: all data that was outstanding at the time of the loss has been acknowledged.
    fn on_recovered(&mut self, now: Time, path: PathId);
    /// Processes a timeout: the window becomes one packet (RFC 5681 §3.1, RFC 9260 §7.2.3).
    fn on_timeout(&mut self, timeout: &Timeout);
    /// Processes the end of an idle time: the window is no longer validated, so it shrinks according to the path's
    /// [`Rules`].
    fn on_idle(&mut self, idle: &Idle);
    /// Reverts the last reaction to a loss or timeout, because it was spurious: no data was lost. Window, threshold and
    /// the algorithm's state become at least as large as before the reaction, as they do in Linux. If there is no such
    /// reaction, nothing changes; reactions to an ECN echo, an idle time or a penalty are not reverted.
    fn on_spurious(&mut self, now: Time, path: PathId);
    /// Halves window and threshold of a path that blocks the connection's buffers (Raiciu2012, penalisation).
    fn penalise(&mut self, now: Time, path: PathId, slow_start: PenaltyInSlowStart);
    /// Returns the congestion window, bytes; at least one MSS, or 0 for an unknown path.
    fn window(&self, path: PathId) -> u64;
    /// Returns the slow-start threshold, bytes; `u64::MAX` before the first loss.
    fn ssthresh(&self, path: PathId) -> u64;
    /// Returns the pacing rate, which is never zero; `None` if this congestion control does not pace.
    fn pacing_rate(&self, path: PathId) -> Option<Rate> {
        let _ = path;
        None
    }
    /// True if transports must report transmissions, lost packets and delivery-rate samples. Such a congestion control
    /// also sets its window in recovery phases, from the delivered data, so transports add no rate reduction (PRR).
    fn wants_rate_samples(&self) -> bool {
        false
    }
    /// Processes the transmission of a packet with data.
    fn on_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }
    /// Processes that a packet with data was marked lost.
    fn on_lost(&mut self, lost: &LostPacket) {
        let _ = lost;
    }
    /// Processes a sample of an acknowledgement that reported data as delivered.
    fn on_sample(&mut self, sample: &RateSample) {
        let _ = sample;
    }
    /// Sets the mark of a path's bottleneck. A coupled congestion control couples a path with the paths of its
    /// connection that have the same mark. [`UNKNOWN`](crate::shared_bottleneck::UNKNOWN), the initial mark, matches
    /// all others. Windows, thresholds and the algorithm's state of the path do not change.
    fn set_bottleneck(&mut self, path: PathId, bottleneck: u16) {
        let _ = (path, bottleneck);
    }
    /// True if transports must report delays with each acknowledgement of new data.
    fn wants_delay_samples(&self) -> bool {
        false
    }
    /// Processes the delay of a path, which an acknowledgement of new data measured.
    fn on_delay(&mut self, sample: &DelaySample) {
        let _ = sample;
    }
    /// Returns the result of bottleneck detection for a path; `None` without bottleneck detection.
    fn grouping(&self, path: PathId) -> Option<Grouping> {
        let _ = path;
        None
    }
    /// True while the congestion control keeps the path's window small for a measurement. Rate samples of
    /// data sent meanwhile are application-limited, because they do not show the limit of the network.
    fn measures_at_rest(&self, path: PathId) -> bool {
        let _ = path;
        false
    }
}
