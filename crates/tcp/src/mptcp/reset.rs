//! Why a subflow is reset (`MP_TCPRST`, RFC 8684 §3.6).

use anabranch_wire::tcp::mptcp::Control;

/// T: the cause of the reset is transient, and the subflow may be tried again.
pub(super) const TRANSIENT: u8 = 0x01;

/// The reasons that this side sends, with their numbers of RFC 8684 §3.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetReason {
    /// The address was gone for a while.
    Unspecified = 0,
    /// A join with an unknown token or a wrong code.
    Protocol = 1,
    /// There are too many subflows.
    Resources = 2,
    /// Other subflows have delivered the data that this one would have to retransmit first.
    Outstanding = 4,
    /// Options do not reach the other end.
    Middlebox = 6,
}

impl ResetReason {
    /// The `MP_TCPRST` option with this reason.
    pub const fn option(self, transient: bool) -> Control {
        Control::Reset { flags: if transient { TRANSIENT } else { 0 }, reason: self as u8 }
    }
}
