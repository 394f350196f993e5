//! Entries of the table of schedulers.

use super::Scheduler;
use crate::registry::Named;
use core::fmt::{self, Debug, Formatter};

/// A function that creates a scheduler for a connection.
pub type Build = &'static (dyn Fn() -> Box<dyn Scheduler> + Send + Sync);

/// A scheduler in the table of all schedulers.
pub struct Entry {
    /// The name used in scenarios.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// The defining publication or implementation.
    pub source: &'static str,
    /// True if the scheduler uses rates. Transports must then set [`ssthresh`](super::PathState::ssthresh) and
    /// [`pacing_rate`](super::PathState::pacing_rate) of each path.
    pub wants_rates: bool,
    /// True if the scheduler decides which data each path sends ([`Scheduler::place`]). False if it decides only which
    /// path sends next. If true, the protocol must permit each path to carry any part of the data in any order.
    pub places: bool,
    /// True if the scheduler uses the characteristics of paths ([`Scheduler::on_information`]), by which it may leave paths
    /// without data ([`Scheduler::leaves_out`]).
    pub wants_information: bool,
    /// Creates a scheduler for a connection.
    pub build: Build,
}

impl Debug for Entry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Named for Entry {
    const KIND: &'static str = "scheduler";

    fn name(&self) -> &'static str {
        self.name
    }
}

/// Two entries are equal if they have the same name.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
