//! Fills the window of the path with the smallest round-trip time first, then that of the next path. This was the
//! default of the first implementation of MPTCP for Linux.

use super::{Decision, Entry, Offer, PathState, Scheduler, eligible};
use anabranch_base::time::Duration;

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "lowest-rtt",
    summary: "the path with the smallest smoothed round-trip time that has room",
    source: "Raiciu2012",
    wants_rates: false,
    places: false,
    wants_information: false,
    build: &|| Box::new(LowestRtt),
};

/// Selects the eligible path with the smallest round-trip time. A path without a measured round-trip time comes after
/// all others; of equal paths, the first in the list is selected.
pub(super) fn fastest(paths: &[PathState]) -> Decision {
    fastest_with_room(paths).map_or(Decision::Wait, |path| Decision::Send(path.id))
}

/// Returns the path that [`fastest`] selects.
pub(super) fn fastest_with_room(paths: &[PathState]) -> Option<&PathState> {
    let room = paths.iter().filter(|path| eligible(path, paths));
    room.min_by_key(|path| path.srtt.unwrap_or(Duration::MAX))
}

#[derive(Debug)]
struct LowestRtt;

impl Scheduler for LowestRtt {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() { Decision::Wait } else { fastest(paths) }
    }
}
