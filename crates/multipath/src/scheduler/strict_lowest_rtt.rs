//! Uses the path with the smallest round-trip time. Uses the next path only if a loss or a reduced window keeps the
//! first one from sending. If the first path cannot send only because its window is full, the scheduler waits for it,
//! since an acknowledgement will arrive (Becke2014 §7.4).

use super::lowest_rtt::fastest;
use super::{Decision, Entry, Offer, PathState, Scheduler, eligible, is_merely_filled, takes_part};
use anabranch_base::time::Duration;

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "strict-lowest-rtt",
    summary: "the fastest path; a slower one only while a loss or a reduced window keeps the fastest from sending",
    source: "Becke2014 §7.4",
    wants_rates: false,
    places: false,
    wants_information: false,
    build: &|| Box::new(StrictLowestRtt),
};

#[derive(Debug)]
struct StrictLowestRtt;

impl Scheduler for StrictLowestRtt {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() {
            return Decision::Wait;
        }
        if offer.repeated {
            return fastest(paths);
        }
        let candidate =
            |path: &&PathState| eligible(path, paths) || takes_part(path, paths) && is_merely_filled(path);
        let best = paths.iter().filter(candidate).min_by_key(|path| path.srtt.unwrap_or(Duration::MAX));
        best.filter(|path| path.queueable > 0).map_or(Decision::Wait, |path| Decision::Send(path.id))
    }
}
