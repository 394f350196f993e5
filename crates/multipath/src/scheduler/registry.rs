//! The table of schedulers. The scenario parser, the command line, the Python package and the tests read it.

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
    super::nca::ENTRY,
    super::strict_lowest_rtt::ENTRY,
    super::strict_round_robin::ENTRY,
];

static REGISTRY: Registry<Entry> = Registry::new(SCHEDULERS);

/// Returns the entry of the scheduler with this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    REGISTRY.find(name)
}

/// Returns the entries of all schedulers: those of the table, then the registered ones.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    REGISTRY.all()
}

/// Registers a scheduler of another crate until the process ends, so that scenarios can name it. A program must call this
/// before it reads such a scenario.
///
/// # Errors
///
/// If another entry has the name, or if it is not a valid name.
pub fn register(entry: Entry) -> Result<&'static Entry, Refused> {
    REGISTRY.add(entry)
}
