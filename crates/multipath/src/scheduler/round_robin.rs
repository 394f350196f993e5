//! One packet on each path in turn. A path without room is passed over, so the paths' windows decide how much
//! each carries once they are full.

use super::{Decision, Entry, Offer, PathState, Scheduler, eligible};
use crate::PathId;

/// The line of the table.
pub(super) const ENTRY: Entry = Entry {
    name: "round-robin",
    summary: "one packet on each path in turn, passing over paths without room",
    source: "Dreibholz2011",
    build: || Box::new(RoundRobin { last: None }),
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
        // The next identifier after the last one used, else the smallest of all.
        let (mut next, mut first) = (None, None);
        for id in paths.iter().filter(|path| eligible(path, paths)).map(|path| path.id) {
            let place = if self.last.is_none_or(|last| id > last) { &mut next } else { &mut first };
            if place.is_none_or(|known| id < known) {
                *place = Some(id);
            }
        }
        let Some(id) = next.or(first) else { return Decision::Wait };
        self.last = Some(id);
        Decision::Send(id)
    }
}
