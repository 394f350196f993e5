//! State of a block's times by cause; `limits.rs` finds the cause.

use anabranch_endpoint::limits::{DeliveryPeak, LimitClock};

/// State of a block's times by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limiting {
    pub clock: LimitClock,
    pub peak: DeliveryPeak,
    /// Bytes known to have arrived.
    pub(super) delivered: u64,
    /// Free congestion window when it was last compared with the data in flight, bytes.
    pub(super) spare: u64,
    /// The pacer did not permit a packet then.
    pub(super) paced: bool,
    /// The window has left slow start, and nothing has happened since that could lead back to it.
    pub(super) avoids: bool,
}
