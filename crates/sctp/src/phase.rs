//! How far the end of an association has come (RFC 9260 §4, §9.2).

use anabranch_base::time::Time;

/// How far the end of an association has come (RFC 9260 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Data flows both ways.
    Established,
    /// This side wants to end; its data is still being acknowledged.
    ShutdownPending,
    /// SHUTDOWN is out (T2 runs until `due`, and no longer than T5, `guard`).
    ShutdownSent { due: Time, guard: Time },
    /// The peer's SHUTDOWN came; the rest of this side's data goes out.
    ShutdownReceived,
    /// SHUTDOWN ACK is out (T2 runs until `due`).
    ShutdownAckSent { due: Time },
}

impl Phase {
    /// New user data is accepted from the application.
    pub fn takes_writes(self) -> bool {
        self == Self::Established
    }

    /// Data chunks may go out.
    pub const fn sends_data(self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// Data chunks may come in: not after the peer's SHUTDOWN or SHUTDOWN ACK.
    pub const fn takes_data(self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownSent { .. })
    }

    /// When the timer of the phase is due.
    pub fn due(self) -> Time {
        match self {
            Self::ShutdownSent { due, guard } => due.min(guard),
            Self::ShutdownAckSent { due } => due,
            _ => Time::MAX,
        }
    }
}
