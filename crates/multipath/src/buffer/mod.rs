//! Buffers: sets of ranges for reassembly and scoreboards, and the rules for sharing a buffer among paths.

mod ranges;
mod splitting;
mod start_up;

pub use ranges::RangeSet;
pub use splitting::{Occupancy, Rescheduling, SendPermission, Shared, Sides, Splitting, SplittingOn};
pub use start_up::StartUp;
