//! The table of schedulers; it feeds the scenario parser, the command line, the Python package and the tests.

use super::{Scheduler, lowest_rtt, redundant, round_robin, weighted};

/// One scheduler of the table.
#[derive(Debug)]
pub struct Entry {
    /// The name used in scenarios.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Makes one for a connection.
    pub build: fn() -> Box<dyn Scheduler>,
}

/// Two entries are the same if they have the same name.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Every scheduler there is; the first is the default.
pub static SCHEDULERS: &[Entry] = &[lowest_rtt::ENTRY, round_robin::ENTRY, weighted::ENTRY, redundant::ENTRY];

/// The scheduler called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    SCHEDULERS.iter().find(|entry| entry.name == name)
}
