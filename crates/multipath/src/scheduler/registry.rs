//! The table of schedulers; it feeds the scenario parser, the command line, the Python package and the tests.

use super::{Entry, lowest_rtt, redundant, round_robin, weighted};

/// Every scheduler there is; the first is the default.
pub static SCHEDULERS: &[Entry] = &[lowest_rtt::ENTRY, round_robin::ENTRY, weighted::ENTRY, redundant::ENTRY];

/// The scheduler called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    SCHEDULERS.iter().find(|entry| entry.name == name)
}
