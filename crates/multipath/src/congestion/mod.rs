//! Congestion control of a whole connection.
//!
//! A control owns the windows of all the paths of one connection, because a coupled control reads every path
//! to grow one of them. It receives small event values and returns [`CongestionControl::window`]; it has no
//! access to connections. Windows are in bytes.

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

/// The standard that a path's window follows, where the standards differ.
///
/// Both begin congestion avoidance when the window reaches the threshold, which RFC 5681 §3.1 leaves open.
/// RFC 9260 §7.2.1 stays in slow start while both are equal, which would give SCTP one more packet after
/// every loss, and 5 % more throughput than a competing TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// RFC 5681: a loss halves the data in flight, not a window that the application does not fill (eq. 4), a
    /// repeated timeout for the same data does not change the threshold (§3.1 after eq. 4), and a path
    /// restarts from the initial window after an idle time (§4.1).
    Tcp,
    /// RFC 9260 §7.2: every loss and timeout sets the threshold from the window (§7.2.3), and the window is
    /// halved for each timeout's length of idle time, down to the minimum threshold. The threshold is set to
    /// the previous window (§7.2.1).
    Sctp,
}

impl Rules {
    /// Minimum slow-start threshold after an uncoupled loss reaction, in packets, by the protocol's standard:
    /// 2 for TCP (RFC 5681 eq. 4), 4 for SCTP (RFC 9260 §7.2.3).
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
    /// Slow-start threshold before the first loss, bytes; `u64::MAX` for none.
    pub initial_ssthresh: u64,
    /// The rules of the path's protocol.
    pub rules: Rules,
    /// Minimum threshold after an uncoupled loss reaction, in packets; [`Rules::floor`] is the standard's value.
    /// Coupled controls use a separate minimum.
    pub floor: u32,
    /// Maximum growth of the window per acknowledgement in slow start, in packets (L of RFC 3465 §2.2);
    /// with `None`, the number of acknowledged packets. After a timeout the maximum is always one (§2.3).
    pub abc_limit: Option<u32>,
    /// True if window and threshold are multiples of a packet: smaller increments accumulate to a whole packet,
    /// as in Linux.
    pub whole_packets: bool,
}

/// Data was newly and cumulatively acknowledged on a path (for CMT: its pseudo-cumulative TSN advanced).
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When the acknowledgement arrived.
    pub now: Time,
    /// The path whose data the acknowledgement covers.
    pub path: PathId,
    /// Newly acknowledged bytes, α.
    pub acked: u64,
    /// The newest round-trip sample, if this acknowledgement has one.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time of the path.
    pub srtt: Option<Duration>,
    /// True if the window was fully utilised when the acknowledged data was sent. Otherwise the window must not
    /// grow (RFC 9260 §7.2.1; similar to RFC 7661).
    pub cwnd_limited: bool,
}

/// The threshold after penalisation of a path in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyInSlowStart {
    /// Half of the threshold, as in congestion avoidance. A path without a threshold stays without one, as in the
    /// Linux of 2013.
    Unbounded,
    /// The previous window, because a window of this size blocked the connection.
    Bounded,
}

/// The signal by which the sender detected a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Duplicate acknowledgements or selective acknowledgements: a fast retransmission follows.
    FastRetransmit,
    /// An ECN echo (RFC 3168 §6.1.2): the window reacts, nothing is retransmitted and no recovery phase
    /// starts.
    Ecn,
}

/// A loss was detected; at most one per window of data and path.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Time at which the loss was detected.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// The signal.
    pub kind: LossKind,
    /// Bytes sent and not acknowledged at the time of the loss (FlightSize of RFC 5681), or the whole window
    /// if the data in flight filled it when it was sent. The window is then validated (RFC 7661 §4.4.1), even if
    /// the application has sent no further data since.
    pub in_flight: u64,
}

/// The retransmission timer of a path expired.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    /// Time of the timeout.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// True if the timer has expired before for the same data: TCP then keeps its threshold (RFC 5681 §3.1 after
    /// eq. 4).
    pub repeated: bool,
    /// Bytes in flight, as in [`Loss::in_flight`].
    pub in_flight: u64,
}

/// Data is about to be sent on a path that was idle for longer than its retransmission timeout.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Time of the event.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// Number of whole retransmission timeouts since its last transmission; at least one.
    pub timeouts: u32,
}

/// The congestion control of one connection, over all of its paths.
///
/// The transport adds each path once, then reports events in the order in which they occur.
/// [`on_loss`](Self::on_loss) with [`LossKind::FastRetransmit`] opens a recovery phase that
/// [`on_recovered`](Self::on_recovered) or [`on_timeout`](Self::on_timeout) closes; acknowledgements within
/// the phase are reported too and do not grow the window.
///
/// A control that [`wants_rate_samples`](Self::wants_rate_samples) gets more events: every transmission of a
/// data packet ([`on_sent`](Self::on_sent)), every packet that is marked lost ([`on_lost`](Self::on_lost)),
/// and, as the last event of each acknowledgement of newly delivered data, a sample
/// ([`on_sample`](Self::on_sample)). A control that
/// [`wants_delay_samples`](Self::wants_delay_samples) gets the path's delay before the acknowledgement from which it
/// was measured.
pub trait CongestionControl: Debug + Send {
    /// The name used in scenarios.
    fn name(&self) -> &'static str;
    /// Adds a path.
    fn add_path(&mut self, path: PathId, setup: PathSetup);
    /// Removes a path; sums no longer include it.
    fn remove_path(&mut self, path: PathId);
    /// A path becomes usable or temporarily unusable (failed, backup): an unusable path keeps its window,
    /// acknowledgements do not open this window, and sums do not include the path.
    fn set_usable(&mut self, path: PathId, usable: bool);
    /// The path's packet size changed. Windows keep their number of bytes, with a minimum of one packet;
    /// values in packets are converted.
    fn set_mss(&mut self, path: PathId, mss: u32);
    /// Data was acknowledged. The window of an unusable path, or of one in recovery, does not grow.
    fn on_ack(&mut self, ack: &Ack);
    /// Data was lost.
    fn on_loss(&mut self, loss: &Loss);
    /// Everything outstanding at the time of the loss is acknowledged: recovery ends.
    fn on_recovered(&mut self, now: Time, path: PathId);
    /// The retransmission timer expired: the window becomes one packet (RFC 5681 §3.1, RFC 9260 §7.2.3).
    fn on_timeout(&mut self, timeout: &Timeout);
    /// The path was idle for longer than its retransmission timeout: the window is no longer validated, and
    /// shrinks according to the path's [`Rules`].
    fn on_idle(&mut self, idle: &Idle);
    /// The last reaction to a loss or timeout was spurious: no data was lost. Window, threshold and the
    /// algorithm's state become at least as large as before the reaction, as after Linux's undo. Without a
    /// reaction to undo nothing changes; an ECN echo, an idle restart and a penalty are not undone.
    fn on_spurious(&mut self, now: Time, path: PathId);
    /// Halves window and threshold of a path that blocks the connection's buffers (Raiciu2012, penalisation).
    fn penalise(&mut self, now: Time, path: PathId, slow_start: PenaltyInSlowStart);
    /// Congestion window, bytes; at least one MSS. 0 for an unknown path.
    fn window(&self, path: PathId) -> u64;
    /// Slow-start threshold, bytes; `u64::MAX` before the first loss.
    fn ssthresh(&self, path: PathId) -> u64;
    /// The pacing rate, if the control uses pacing; never zero.
    fn pacing_rate(&self, path: PathId) -> Option<Rate> {
        let _ = path;
        None
    }
    /// Whether transports have to report transmissions, lost packets and delivery-rate samples. Such a
    /// control also sets its window in recovery phases, from the delivered data: transports add no rate
    /// reduction of their own (PRR).
    fn wants_rate_samples(&self) -> bool {
        false
    }
    /// Reports the transmission of a packet with data.
    fn on_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }
    /// A packet with data was marked lost.
    fn on_lost(&mut self, lost: &LostPacket) {
        let _ = lost;
    }
    /// An acknowledgement reported data as delivered.
    fn on_sample(&mut self, sample: &RateSample) {
        let _ = sample;
    }
    /// Sets the bottleneck of a path. A coupled control couples a path with the paths of its connection that
    /// have the same mark; [`UNKNOWN`](crate::shared_bottleneck::UNKNOWN), the initial mark of every path,
    /// matches all other marks. Windows, thresholds and the algorithm's state of the path do not change.
    fn set_bottleneck(&mut self, path: PathId, bottleneck: u16) {
        let _ = (path, bottleneck);
    }
    /// Whether transports have to report delays with every acknowledgement of new data.
    fn wants_delay_samples(&self) -> bool {
        false
    }
    /// The delay of a path, measured by an acknowledgement of new data.
    fn on_delay(&mut self, sample: &DelaySample) {
        let _ = sample;
    }
    /// The result of bottleneck detection for a path, if the control has it.
    fn grouping(&self, path: PathId) -> Option<Grouping> {
        let _ = path;
        None
    }
    /// Whether the control keeps the path's window small now, for a measurement. The data sent in this time shows
    /// nothing about the network's limit, as in an application-limited phase.
    fn measures_at_rest(&self, path: PathId) -> bool {
        let _ = path;
        false
    }
}
