//! The rest of a transmission that a rate of zero interrupts.

use anabranch_base::time::Duration;

/// The rest of an interrupted transmission.
#[derive(Clone, Debug)]
pub(super) struct Suspended<F> {
    /// The part that has not left, as the product of a rate in bit/s and a time in nanoseconds.
    pub left: u128,
    /// The frame, and the time from the end of its transmission to its arrival; `None` if it is lost on the way.
    pub frame: Option<(Duration, F)>,
}

impl<F> Suspended<F> {
    /// The frame, if it is not lost on the way.
    pub fn into_frame(self) -> Option<F> {
        self.frame.map(|(_, frame)| frame)
    }
}
