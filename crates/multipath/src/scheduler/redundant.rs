//! Sends all data on every path. The receiver uses the copy that arrives first.

use super::lowest_rtt::fastest;
use super::{Decision, Entry, Offer, PathState, Scheduler};

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "redundant",
    summary: "all the data on every path",
    source: "the redundant scheduler of Linux's first MPTCP",
    wants_rates: false,
    places: false,
    wants_information: false,
    build: &|| Box::new(Redundant),
};

#[derive(Debug)]
struct Redundant;

impl Scheduler for Redundant {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() { Decision::Wait } else { fastest(paths) }
    }

    fn duplicates(&self) -> bool {
        true
    }
}
