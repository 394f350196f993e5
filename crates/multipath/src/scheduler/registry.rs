//! The table of schedulers; it feeds the scenario parser, the command line, the Python package and the tests.

use super::Entry;
use crate::registry::{Refused, Registry};

/// All schedulers; the first is the default.
#[rustfmt::skip] // One line per entry.
pub static SCHEDULERS: &[Entry] = &[
    super::lowest_rtt::ENTRY,
    super::round_robin::ENTRY,
    super::weighted::ENTRY,
    super::redundant::ENTRY,
    super::blest::ENTRY,
    super::ecf::ENTRY,
    super::linux::ENTRY,
    super::linux_ahead::ENTRY,
    super::otias::ENTRY,
    super::consn::ENTRY,
    super::consn::ASCENDING_ENTRY,
    super::strict_lowest_rtt::ENTRY,
    super::strict_round_robin::ENTRY,
];

static REGISTRY: Registry<Entry> = Registry::new(SCHEDULERS);

/// The scheduler called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    REGISTRY.find(name)
}

/// All schedulers: those of the table, then the registered ones.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    REGISTRY.all()
}

/// Adds a scheduler to those that scenarios can name, until the process ends. A program that runs scenarios with a
/// scheduler of another crate calls this before it reads a scenario.
///
/// # Errors
///
/// If the name exists or is no word.
pub fn register(entry: Entry) -> Result<&'static Entry, Refused> {
    REGISTRY.add(entry)
}
