//! Decisions of a scheduler, for traces.

use anabranch_base::time::Time;
use anabranch_multipath::PathId;

/// A scheduling decision: data that was given to a path, or that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulingDecision {
    /// Time of the decision.
    pub at: Time,
    /// The path, or `None` if the data has to wait.
    pub path: Option<PathId>,
    /// Offset of the data in the sender's stream.
    pub offset: u64,
    /// Length in bytes; zero for a wait.
    pub len: u32,
    /// The reason.
    pub reason: DecisionReason,
}

/// The reason for which data was given to a path, or has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionReason {
    /// New data on the path that the scheduler chose.
    New,
    /// A further copy of data that another path has already sent, for a scheduler that sends all data on every path.
    Copy,
    /// A retransmission on CMT-SCTP; a subflow of Multipath TCP retransmits independently of the scheduler.
    Retransmission,
    /// A copy on another path, because the gap blocks a buffer (chunk rescheduling).
    Rescheduling,
    /// A probe of the peer's closed window.
    WindowProbe,
    /// Data that another path lost, or whose path failed.
    Reinjection,
    /// Data that blocks the receive window, on a faster path with free congestion window (Raiciu2012).
    Opportunistic,
    /// Data in flight on another path where the two paths' ranges meet (confluent sequence numbers, Becke2014 §7.5).
    Confluence,
    /// The paths' congestion windows are full, or the scheduler prefers to wait.
    NoRoom,
    /// Every path with free congestion window has used up its share of a buffer.
    BufferShare,
    /// The peer's receive window is closed.
    ReceiveWindow,
}

impl DecisionReason {
    /// The name of the reason in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new-data",
            Self::Copy => "copy",
            Self::Retransmission => "retransmission",
            Self::Rescheduling => "chunk-rescheduling",
            Self::WindowProbe => "window-probe",
            Self::Reinjection => "reinjection",
            Self::Opportunistic => "opportunistic-retransmission",
            Self::Confluence => "confluence",
            Self::NoRoom => "congestion-window",
            Self::BufferShare => "buffer-share",
            Self::ReceiveWindow => "receive-window",
        }
    }
}
