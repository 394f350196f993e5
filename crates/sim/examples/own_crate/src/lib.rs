//! A congestion control and a scheduler outside the workspace. `make own CRATE=crates/sim/examples/own_crate` builds a
//! command `anabranch` that has them.

use anabranch_multipath::congestion::{self, Ack, Algorithm, Controller, Group, Signal};
use anabranch_multipath::registry::Refused;
use anabranch_multipath::scheduler::{self, Decision, Offer, PathState, Scheduler, eligible};

/// Adds the algorithms of this crate. The command calls it once.
///
/// # Errors
///
/// If a name exists.
pub fn register() -> Result<(), Refused> {
    congestion::register(GENTLE)?;
    scheduler::register(MOST_FREE_WINDOW)?;
    Ok(())
}

/// One packet a round trip, and 70 % of the window after a loss.
#[derive(Debug)]
struct Gentle;

impl Algorithm for Gentle {
    const NAME: &'static str = "gentle";
    const PER_WINDOW: bool = true;
    type State = ();

    fn avoidance(&mut self, group: &mut Group<()>, at: usize, _: &Ack) -> f64 {
        group.path(at).mss as f64
    }

    fn threshold(&self, group: &Group<()>, at: usize) -> u64 {
        let path = group.path(at);
        (path.cwnd * 7 / 10).max(path.floor())
    }
}

const GENTLE: congestion::Entry = congestion::Entry {
    name: Gentle::NAME,
    aliases: &[],
    summary: "one packet a round trip, 70 % of the window on loss",
    source: "an example",
    coupled: false,
    signal: Signal::Loss,
    build: &|_| Box::new(Controller::new(Gentle)),
};

/// The eligible path with the most free window.
#[derive(Debug)]
struct Roomiest;

impl Scheduler for Roomiest {
    fn name(&self) -> &'static str {
        MOST_FREE_WINDOW.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        let room = |path: &&PathState| path.cwnd.saturating_sub(path.outstanding);
        let candidates = paths.iter().filter(|path| !offer.is_empty() && eligible(path, paths));
        candidates.max_by_key(room).map_or(Decision::Wait, |path| Decision::Send(path.id))
    }
}

const MOST_FREE_WINDOW: scheduler::Entry = scheduler::Entry {
    name: "roomiest",
    summary: "the path with the most free window",
    source: "an example",
    wants_rates: false,
    places: false,
    wants_information: false,
    build: &|| Box::new(Roomiest),
};

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::time::{Duration, Time};
    use anabranch_multipath::PathId;

    #[test]
    fn gentle_obeys_the_laws_of_controls() {
        congestion::conformance::check(&|| Box::new(Controller::new(Gentle)), 100)
            .expect("the control obeys all laws");
    }

    #[test]
    fn registered_scheduler_takes_the_most_free_window() {
        register().expect("the names are new");
        let entry = scheduler::find("roomiest").expect("the scheduler is registered");
        let path = |id, cwnd| PathState::new(PathId(id), cwnd, Duration::from_millis(10));
        let offer = Offer { now: Time::ZERO, bytes: 1_000, window: 1_000, send_window: 9_000, repeated: false };
        let decision = (entry.build)().select(&offer, &[path(0, 4_000), path(1, 9_000)]);
        assert_eq!(decision, Decision::Send(PathId(1)));
    }
}
