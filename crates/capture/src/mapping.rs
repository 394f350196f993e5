//! The mappings of one direction of a subflow, from its sequence numbers to data sequence numbers (RFC 8684 §3.3).

use anabranch_wire::seq::Serial;
use std::collections::VecDeque;

/// Maximum number of kept mappings. A few suffice, because a retransmission of earlier data repeats its mapping.
const MAX_MAPPINGS: usize = 32;

/// A mapping in unwrapped numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    from: u64,
    to: u64,
    dsn: u64,
}

/// The latest mappings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mappings {
    list: VecDeque<Mapping>,
    /// Initial sequence number, taken from the SYN or derived from a mapping.
    isn: Option<Serial>,
    is_isn_known: bool,
    /// True if a mapping has been seen.
    pub has_any: bool,
}

impl Mappings {
    /// Sets the initial sequence number from a SYN.
    pub fn set_isn(&mut self, isn: Serial) {
        self.isn = Some(isn);
        self.is_isn_known = true;
    }

    /// The sequence number that corresponds to a mapping's relative number. Without a captured SYN, a mapping is
    /// assumed to begin at its segment, until an earlier segment with the mapping shows that it begins before.
    pub fn absolute(&mut self, relative: u32, segment: Serial) -> Serial {
        let derived = segment.sub(relative);
        match self.isn {
            Some(isn) if self.is_isn_known || isn.at_or_before(derived) => {}
            _ => self.isn = Some(derived),
        }
        self.isn.unwrap_or(derived).add(relative)
    }

    /// Adds a mapping of `[from, to)` to data sequence numbers from `dsn` on.
    pub fn add(&mut self, (from, to): (u64, u64), dsn: u64) {
        self.has_any = true;
        let new = Mapping { from, to, dsn };
        if from >= to || self.list.contains(&new) {
            return;
        }
        if self.list.len() >= MAX_MAPPINGS {
            self.list.pop_front();
        }
        self.list.push_back(new);
    }

    /// The first part of `[from, to)` and its first data sequence number, if that part is mapped. If mappings
    /// overlap, the latest one counts.
    pub fn of(&self, (from, to): (u64, u64)) -> Option<((u64, u64), u64)> {
        let found = self.list.iter().rev().find(|mapping| (mapping.from..mapping.to).contains(&from))?;
        Some(((from, to.min(found.to)), found.dsn.wrapping_add(from - found.from)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_over_two_mappings_is_mapped_in_parts() {
        let mut mappings = Mappings::default();
        mappings.add((100, 110), 1_000);
        mappings.add((110, 130), 5_000);
        assert_eq!(mappings.of((105, 120)), Some(((105, 110), 1_005)));
        assert_eq!(mappings.of((110, 120)), Some(((110, 120), 5_000)));
        assert_eq!(mappings.of((130, 131)), None);
    }

    #[test]
    fn earlier_segment_corrects_the_derived_start() {
        let mut mappings = Mappings::default();
        // The capture begins in the middle of a mapping from 501 on.
        assert_eq!(mappings.absolute(501, Serial(2_000)), Serial(2_000));
        assert_eq!(mappings.absolute(901, Serial(1_900)), Serial(1_900));
        assert_eq!(mappings.absolute(1_000, Serial(2_500)), Serial(1_999));
        mappings.set_isn(Serial(7));
        assert_eq!(mappings.absolute(1, Serial(500)), Serial(8));
    }

    #[test]
    fn number_of_mappings_is_bounded() {
        let mut mappings = Mappings::default();
        (0..1_000).for_each(|at| mappings.add((at, at + 1), at));
        assert_eq!(
            (mappings.list.len(), mappings.of((0, 1)), mappings.of((999, 1_000)).is_some()),
            (32, None, true)
        );
    }
}
