//! The two ends of a flow, by their place in arrays of two.

/// The end that connects. Most flows' data comes from it.
pub const SENDER: usize = 0;
/// The end that listens.
pub const RECEIVER: usize = 1;
