//! Sums over the chunks of the scoreboard, per path and in total.

use anabranch_endpoint::endpoint::DecisionReason;

/// The sender's view of a chunk that has a TSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkState {
    /// Sent, neither acknowledged nor believed lost.
    InFlight,
    /// To be sent again.
    Lost(Resend),
    /// Covered by a gap block on which the receiver may renege.
    GapAcked,
    /// Covered by a non-renegable gap block; it no longer occupies the send buffer.
    Freed,
    /// Its message was given up (RFC 3758): it takes no room anywhere, and waits for the peer to step over it.
    Abandoned,
}

impl ChunkState {
    /// Neither acknowledged nor given up: the peer still needs it, or has it without having acknowledged it.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::InFlight | Self::Lost(_))
    }
}

/// Why a chunk is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resend {
    /// Missing reports.
    Fast,
    /// The retransmission timer ran out, or its path is gone.
    Timeout,
    /// It blocks a buffer, and another path carries it once more.
    Rescheduled,
    /// A zero-window probe that was not taken.
    Probe,
    /// Its packet was too big for the path.
    TooBig,
    /// Sent again as a tail loss probe: no acknowledgement has come for its path.
    Tail,
}

impl Resend {
    /// The reason in a record of the decision.
    pub const fn reason(self) -> DecisionReason {
        match self {
            Self::Rescheduled => DecisionReason::Rescheduling,
            Self::Probe => DecisionReason::WindowProbe,
            Self::Fast | Self::Timeout | Self::TooBig | Self::Tail => DecisionReason::Retransmission,
        }
    }
}

/// Sums over chunks: of payload where it takes room in a buffer, of whole chunks where it takes room in a window.
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
    /// A chunk of `len` bytes is in this state now.
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

    /// A chunk of `len` bytes is no longer in this state.
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

    /// Bytes of payload in flight.
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Bytes in flight as a congestion window counts them: whole chunks, each with a header of `header`
    /// bytes.
    #[inline]
    pub const fn in_window(&self, header: u32) -> u64 {
        self.in_flight + self.padding + self.chunks_in_flight * header as u64
    }

    /// Bytes that occupy the send buffer: in flight, lost, or acknowledged behind a gap and not freed.
    pub const fn buffered(&self) -> u64 {
        self.buffered
    }

    /// Bytes received behind a gap, freed or not.
    pub const fn behind_gap(&self) -> u64 {
        self.behind_gap
    }

    /// Bytes acknowledged behind a gap that still occupy the send buffer.
    pub const fn gap_acknowledged(&self) -> u64 {
        self.behind_gap - self.freed
    }

    /// Chunks believed lost and not yet sent again.
    pub const fn lost_chunks(&self) -> usize {
        self.lost_chunks
    }

    /// Chunks of messages that were given up.
    pub const fn abandoned(&self) -> usize {
        self.abandoned
    }
}

/// Bytes behind `len` bytes of payload up to the end of their chunk.
const fn padding(len: u64) -> u64 {
    len.wrapping_neg() & 3
}
