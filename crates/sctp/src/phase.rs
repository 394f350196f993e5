//! States of an established association and its shutdown (RFC 9260 §4, §9.2).

use anabranch_base::time::Time;

/// State of an established association or its shutdown (RFC 9260 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// ESTABLISHED: data is sent in both directions.
    Established,
    /// SHUTDOWN-PENDING: the application has closed; its data is still being acknowledged.
    ShutdownPending,
    /// SHUTDOWN-SENT (T2 runs until `due`, and at most until T5, `guard`).
    ShutdownSent { due: Time, guard: Time },
    /// SHUTDOWN-RECEIVED: remaining local data is sent.
    ShutdownReceived,
    /// SHUTDOWN-ACK-SENT (T2 runs until `due`).
    ShutdownAckSent { due: Time },
}

impl Phase {
    /// Returns true if the application may write data.
    pub fn takes_writes(self) -> bool {
        self == Self::Established
    }

    /// True if DATA chunks may be sent.
    pub const fn sends_data(self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// Returns true if the peer may send data: not after its SHUTDOWN or SHUTDOWN ACK.
    pub const fn takes_data(self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownSent { .. })
    }

    /// Time of the phase's timer.
    pub fn due(self) -> Time {
        match self {
            Self::ShutdownSent { due, guard } => due.min(guard),
            Self::ShutdownAckSent { due } => due,
            _ => Time::MAX,
        }
    }
}
