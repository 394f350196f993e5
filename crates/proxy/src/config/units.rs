//! Times in the file, such as "10 s".

use serde::Deserialize;
use std::time::Duration;

/// A time that is not nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Seconds(Duration);

/// Units, and milliseconds in each.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000)];

impl Seconds {
    /// So many seconds.
    pub const fn of(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// As a duration.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl TryFrom<String> for Seconds {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let millis = UNITS.iter().find(|(name, _)| *name == unit.trim()).map(|(_, millis)| millis);
        number
            .parse::<u64>()
            .ok()
            .zip(millis)
            .and_then(|(number, millis)| number.checked_mul(*millis))
            .filter(|&millis| millis > 0)
            .map(|millis| Self(Duration::from_millis(millis)))
            .ok_or_else(|| format!("\"{text}\" is no time; write one as \"10 s\", in ms, s, min or h"))
    }
}
