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
    /// Makes one for a connection.
    pub build: fn() -> Box<dyn Scheduler>,
}

/// Two entries are the same if they have the same name.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
