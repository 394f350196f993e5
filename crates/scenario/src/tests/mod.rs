//! Tests of the whole parser.

mod addresses;
mod bad;
mod generated;
mod good;
mod mutations;
mod round_trip;

use super::{Scenario, parse_with};
use std::path::Path;

/// A scenario with every key.
const EVERYTHING: &str = include_str!("everything.toml");

/// The trace in that scenario.
const TRACE: &str = "0\n1\n1\n7\n";

/// The CSV files in that scenario.
const ROWS: &str = "0,0.25\n0.5,1\n2,0\n";

/// The files in that scenario.
#[expect(clippy::unnecessary_wraps, reason = "the parser's type of a reader")]
fn files(path: &Path) -> Result<String, String> {
    Ok(if path.extension().is_some_and(|ending| ending == "csv") { ROWS } else { TRACE }.to_owned())
}

fn everything() -> Scenario {
    parse_with(EVERYTHING, "everything.toml", &[], &files).unwrap_or_else(|error| panic!("{error}"))
}
