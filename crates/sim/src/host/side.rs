//! The two ends of a flow, by their index in arrays of two.

/// The connecting end. In most flows it sends the data.
pub const SENDER: usize = 0;
/// The listening end.
pub const RECEIVER: usize = 1;
