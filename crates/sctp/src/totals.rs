//! Sums over the chunks of the scoreboard, per path and in total.

use anabranch_endpoint::endpoint::DecisionReason;

/// The sender's view of a chunk that has a TSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkState {
    /// Sent, and neither acknowledged nor lost.
    InFlight,
    /// Lost, to be retransmitted.
    Lost(RetransmissionReason),
    /// Covered by a gap block on which the receiver may renege.
    GapAcked,
    /// Covered by a non-renegable gap block; it no longer occupies the send buffer.
    Freed,
    /// The chunk's message was abandoned (RFC 3758): the chunk uses no buffer, and its entry remains until the peer
    /// acknowledges a FORWARD TSN.
    Abandoned,
}

impl ChunkState {
    /// Returns true if the chunk is neither acknowledged nor abandoned.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::InFlight | Self::Lost(_))
    }
}

/// Reason for which a chunk is retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetransmissionReason {
    /// Missing reports (fast retransmission).
    Fast,
    /// The retransmission timer expired, or its path was removed.
    Timeout,
    /// The chunk blocks a buffer, and is retransmitted on another path.
    Rescheduled,
    /// A zero-window probe that the receiver did not accept.
    Probe,
    /// The packet with the chunk exceeded the path MTU.
    TooBig,
    /// Retransmitted as a tail loss probe: no acknowledgement has arrived for its path.
    Tail,
}

impl RetransmissionReason {
    /// The reason in a record of the decision.
    pub const fn reason(self) -> DecisionReason {
        match self {
            Self::Rescheduled => DecisionReason::Rescheduling,
            Self::Probe => DecisionReason::WindowProbe,
            Self::Fast | Self::Timeout | Self::TooBig | Self::Tail => DecisionReason::Retransmission,
        }
    }
}

/// Totals over chunks. Buffer totals count payload bytes; window totals count whole chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkTotals {
    in_flight: u64,
    /// Padding of the chunks in flight to multiples of four, bytes.
    padding: u64,
    chunks_in_flight: u64,
    buffered: u64,
    behind_gap: u64,
    freed: u64,
    lost_chunks: usize,
    abandoned: usize,
}

impl ChunkTotals {
    /// Adds a chunk of `len` bytes in this state.
    pub fn add(&mut self, state: ChunkState, len: u32) {
        let len = u64::from(len);
        match state {
            ChunkState::InFlight => {
                self.buffered += len;
                self.in_flight += len;
                self.padding += padding(len);
                self.chunks_in_flight += 1;
            }
            ChunkState::Lost(_) => {
                self.buffered += len;
                self.lost_chunks += 1;
            }
            ChunkState::GapAcked => {
                self.buffered += len;
                self.behind_gap += len;
            }
            ChunkState::Freed => {
                self.behind_gap += len;
                self.freed += len;
            }
            ChunkState::Abandoned => self.abandoned += 1,
        }
    }

    /// Removes a chunk of `len` bytes in this state.
    pub fn remove(&mut self, state: ChunkState, len: u32) {
        let len = u64::from(len);
        match state {
            ChunkState::InFlight => {
                self.buffered -= len;
                self.in_flight -= len;
                self.padding -= padding(len);
                self.chunks_in_flight -= 1;
            }
            ChunkState::Lost(_) => {
                self.buffered -= len;
                self.lost_chunks -= 1;
            }
            ChunkState::GapAcked => {
                self.buffered -= len;
                self.behind_gap -= len;
            }
            ChunkState::Freed => {
                self.behind_gap -= len;
                self.freed -= len;
            }
            ChunkState::Abandoned => self.abandoned -= 1,
        }
    }

    /// Payload bytes in flight.
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Bytes in flight as a congestion window counts them: whole chunks, each with a header of `header`
    /// bytes.
    #[inline]
    pub const fn in_window(&self, header: u32) -> u64 {
        self.in_flight + self.padding + self.chunks_in_flight * header as u64
    }

    /// Payload bytes that occupy the send buffer: in flight, lost, or acknowledged after a gap and not freed.
    pub const fn buffered(&self) -> u64 {
        self.buffered
    }

    /// Payload bytes received after a gap, freed or not.
    pub const fn behind_gap(&self) -> u64 {
        self.behind_gap
    }

    /// Payload bytes acknowledged after a gap that still occupy the send buffer.
    pub const fn gap_acknowledged(&self) -> u64 {
        self.behind_gap - self.freed
    }

    /// Number of lost chunks that have not been retransmitted.
    pub const fn lost_chunks(&self) -> usize {
        self.lost_chunks
    }

    /// Number of chunks of abandoned messages.
    pub const fn abandoned(&self) -> usize {
        self.abandoned
    }
}

/// Padding bytes after `len` bytes of payload.
const fn padding(len: u64) -> u64 {
    len.wrapping_neg() & 3
}
