//! Sends one packet on each path in turn. A path without room is skipped. So once the windows of the paths are full,
//! they determine the share of each path.

use super::{Decision, Entry, Offer, PathState, Scheduler, eligible};
use crate::PathId;

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "round-robin",
    summary: "one packet on each path in turn, skipping paths without room",
    source: "Dreibholz2011",
    wants_rates: false,
    places: false,
    wants_information: false,
    build: &|| Box::new(RoundRobin { last: None }),
};

#[derive(Debug)]
struct RoundRobin {
    last: Option<PathId>,
}

impl Scheduler for RoundRobin {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() {
            return Decision::Wait;
        }
        let room = paths.iter().filter(|path| eligible(path, paths));
        let Some(path) = after(self.last, room) else { return Decision::Wait };
        self.last = Some(path.id);
        Decision::Send(path.id)
    }
}

/// Returns the path with the next higher identifier after the path used last, or else the path with the smallest
/// identifier.
pub(super) fn after<'a>(
    last: Option<PathId>,
    paths: impl Iterator<Item = &'a PathState>,
) -> Option<&'a PathState> {
    let (mut next, mut first): (Option<&PathState>, Option<&PathState>) = (None, None);
    for path in paths {
        let place = if last.is_none_or(|last| path.id > last) { &mut next } else { &mut first };
        if place.is_none_or(|known| path.id < known.id) {
            *place = Some(path);
        }
    }
    next.or(first)
}
