//! Buffers: sets of ranges for reassembly and scoreboards, and the rules by which paths share a buffer.

mod copies;
mod ranges;
mod splitting;
mod start_up;

pub use copies::holds_back;
pub use ranges::RangeSet;
pub use splitting::{Occupancy, Rescheduling, Shared, Sides, Splitting, SplittingOn, Verdict};
pub use start_up::StartUp;
