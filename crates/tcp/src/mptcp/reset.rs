//! Reasons for the reset of a subflow (`MP_TCPRST`, RFC 8684 §3.6).

use anabranch_wire::tcp::mptcp::Control;

/// T: the cause of the reset is transient, and the subflow may be tried again.
pub(super) const TRANSIENT_FLAG: u8 = 0x01;

/// The reasons that this end sends, with their codes of RFC 8684 §3.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetReason {
    /// The address was lost for some time.
    Unspecified = 0,
    /// A join with an unknown token or a wrong code.
    Protocol = 1,
    /// The connection has no room for another subflow.
    Resources = 2,
    /// Other subflows have delivered the data that this subflow would have to retransmit first.
    Outstanding = 4,
    /// A middlebox removes or changes options.
    Middlebox = 6,
}

impl ResetReason {
    /// The `MP_TCPRST` option with this reason.
    pub const fn option(self, transient: bool) -> Control {
        Control::Reset { flags: if transient { TRANSIENT_FLAG } else { 0 }, reason: self as u8 }
    }
}
