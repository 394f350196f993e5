//! Buffers: sets of ranges for reassembly and scoreboards, and the rules by which paths share a buffer.

mod ranges;

pub use ranges::RangeSet;
