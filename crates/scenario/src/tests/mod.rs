//! Tests of the whole parser.

mod addresses;
mod bad;
mod gateways;
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

/// The message sizes, and the messages, in that scenario.
const SIZES: &str = "100\n7\n";
const MESSAGES: &str = "time_s,bytes\n0,160\n0.02,7\n";

/// The files in that scenario.
#[expect(clippy::unnecessary_wraps, reason = "the parser's type of a reader")]
fn files(path: &Path) -> Result<String, String> {
    let text = match path.file_name().and_then(|name| name.to_str()) {
        Some("sizes.csv") => SIZES,
        Some("messages.csv") => MESSAGES,
        _ if path.extension().is_some_and(|ending| ending == "csv") => ROWS,
        _ => TRACE,
    };
    Ok(text.to_owned())
}

fn everything() -> Scenario {
    parse_with(EVERYTHING, "everything.toml", &[], &files).unwrap_or_else(|error| panic!("{error}"))
}
