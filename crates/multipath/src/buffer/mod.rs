//! Buffers: sets of ranges for reassembly and scoreboards, and the rules by which paths share a buffer.

mod ranges;
mod splitting;

pub use ranges::RangeSet;
pub use splitting::{Occupancy, Rescheduling, Shared, Sides, Splitting, SplittingOn, Verdict};
