//! What the table of schedulers says of one.

use super::Scheduler;

/// One scheduler of the table.
#[derive(Debug)]
pub struct Entry {
    /// The name used in scenarios.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// It goes by rates: transports tell it [`ssthresh`](super::PathState::ssthresh) and
    /// [`pacing_rate`](super::PathState::pacing_rate) of each path.
    pub wants_rates: bool,
    /// It decides which data goes where, not only which path has the next ([`Scheduler::place`]). That takes a protocol whose
    /// paths can carry any part of the data in any order.
    pub places: bool,
    /// Makes one for a connection.
    pub build: fn() -> Box<dyn Scheduler>,
}

impl Entry {
    /// It does with the data in order, each byte on one path: what any protocol can carry out.
    pub fn takes_turns(&self) -> bool {
        !self.places && !(self.build)().duplicates()
    }
}

/// Two entries are the same if they have the same name.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
