//! Scenarios from their text.

use anabranch_sim::scenario::{self, Scenario};

/// The scenario of a text with these settings.
pub fn read(text: &str, settings: &[(&str, &str)]) -> Scenario {
    let settings: Vec<_> = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    scenario::parse(text, "scenario", &settings).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
