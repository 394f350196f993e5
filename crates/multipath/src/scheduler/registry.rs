//! The table of schedulers; it feeds the scenario parser, the command line, the Python package and the tests.

use super::Entry;

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

/// The scheduler called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    SCHEDULERS.iter().find(|entry| entry.name == name)
}
