//! The two ends of a flow, by their place in arrays of two.

/// The end that connects and writes.
pub const SENDER: usize = 0;
/// The end that listens and reads.
pub const RECEIVER: usize = 1;
