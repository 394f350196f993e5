//! State for the times of a control block by the cause that limits sending; `limits.rs` determines the cause.

use anabranch_endpoint::limits::{DeliveryPeak, LimitClock};

/// State for the times of a control block by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limiting {
    pub clock: LimitClock,
    pub peak: DeliveryPeak,
    /// Bytes that the peer has acknowledged, cumulatively or selectively.
    pub(super) delivered: u64,
    /// Free congestion window when it was last compared with the data in flight, bytes.
    pub(super) spare: u64,
    /// True if the pacer permitted no packet at that time.
    pub(super) paced: bool,
    /// True if the window has left slow start, and no later event can have led back to it.
    pub(super) avoids: bool,
}
