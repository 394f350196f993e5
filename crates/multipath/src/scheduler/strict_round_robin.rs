//! Sends one packet on each path in turn. A path that cannot send only because its window is full keeps its turn, and
//! the other paths wait. A path that cannot send because of a loss or a reduced window is skipped (Becke2014 §7.4).

use super::round_robin::after;
use super::{Decision, Entry, Offer, PathState, Scheduler, eligible, is_merely_filled, takes_part};
use crate::PathId;

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "strict-round-robin",
    summary: "one packet on each path in turn; a path whose window is full keeps its turn",
    source: "Becke2014 §7.4",
    wants_rates: false,
    places: false,
    wants_information: false,
    build: &|| Box::new(StrictRoundRobin { last: None }),
};

#[derive(Debug)]
struct StrictRoundRobin {
    last: Option<PathId>,
}

impl Scheduler for StrictRoundRobin {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() {
            return Decision::Wait;
        }
        let candidate = |path: &&PathState| {
            eligible(path, paths) || !offer.repeated && takes_part(path, paths) && is_merely_filled(path)
        };
        let next = after(self.last, paths.iter().filter(candidate)).filter(|path| path.queueable > 0);
        let Some(path) = next else { return Decision::Wait };
        self.last = Some(path.id);
        Decision::Send(path.id)
    }
}
