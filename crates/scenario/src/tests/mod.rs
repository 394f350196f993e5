//! Tests of the whole parser.

mod bad;
mod generated;
mod good;
mod mutations;
mod round_trip;

use super::{Scenario, parse_with};

/// A scenario with every key.
const EVERYTHING: &str = include_str!("everything.toml");

/// The trace in that scenario.
const TRACE: &str = "0\n1\n1\n7\n";

fn everything() -> Scenario {
    parse_with(EVERYTHING, "everything.toml", &[], &|_| Ok(TRACE.to_owned()))
        .unwrap_or_else(|error| panic!("{error}"))
}
