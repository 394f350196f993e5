//! Durations and amounts of data with units in the configuration file, such as "10 s" and "20 GB".

use core::fmt;
use serde::Deserialize;
use std::time::Duration;

/// Name of a unit, and its size in the smallest unit (1 ms or 1 B).
type Unit = (&'static str, u64);

/// Units of durations.
const TIMES: [Unit; 4] = [("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000)];

/// Units of data. Network operators count in powers of ten, many programs in powers of two (IEC 80000-13).
const BYTES: [Unit; 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Parses a positive whole number with a unit; returns the amount in the smallest unit.
fn parse_amount(text: &str, units: &[Unit]) -> Option<u64> {
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let (_, size) = units.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*size).filter(|&amount| amount > 0)
}

/// A duration above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Seconds(Duration);

impl Seconds {
    /// Creates a duration from a number of seconds.
    pub const fn of(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Converts to the standard library's type.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl TryFrom<String> for Seconds {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse_amount(&text, &TIMES).map(|millis| Self(Duration::from_millis(millis))).ok_or_else(|| {
            format!("\"{text}\" is not a duration; write for example \"10 s\"; units: ms, s, min, h")
        })
    }
}

/// Idle time before a keep-alive probe. The kernel's option (`TCP_KEEPIDLE`) takes whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct KeepAlive(Duration);

impl KeepAlive {
    /// Largest value of `TCP_KEEPIDLE`, seconds (`MAX_TCP_KEEPIDLE`).
    const MAX_S: u64 = 32_767;

    /// Converts to the standard library's type.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl Default for KeepAlive {
    /// Returns a value below the idle timeouts of mobile carriers' NATs, some of which are 30 s (RFC 5382 §5 requires
    /// two hours).
    fn default() -> Self {
        Self(Duration::from_secs(25))
    }
}

impl TryFrom<String> for KeepAlive {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time = Seconds::try_from(text.clone())?.duration();
        if time.subsec_nanos() == 0 && (1..=Self::MAX_S).contains(&time.as_secs()) {
            Ok(Self(time))
        } else {
            Err(format!(
                "keep_alive must be a whole number of seconds from 1 to {}, but is \"{text}\"",
                Self::MAX_S
            ))
        }
    }
}

/// An amount of data above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Bytes(u64);

impl Bytes {
    /// Creates an amount from a number of bytes.
    pub const fn of(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the number of bytes.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse_amount(&text, &BYTES).map(Self).ok_or_else(|| {
            format!(
                "\"{text}\" is not an amount of data; write for example \"20 GB\"; units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"
            )
        })
    }
}

/// Writes the amount with a decimal prefix and two decimal places.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = &BYTES[1..5];
        match decimal.iter().rev().find(|(_, size)| self.0 >= *size) {
            Some((name, size)) => write!(f, "{:.2} {name}", self.0 as f64 / *size as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_with_their_units() {
        let bytes = |text: &str| Bytes::try_from(text.to_owned()).map(Bytes::number).ok();
        assert_eq!(bytes("20 GB"), Some(20_000_000_000));
        assert_eq!(bytes("3KiB"), Some(3072));
        for wrong in ["20", "20 gb", "0 B", "-1 B", "1.5 GB", "GB", "18446744073709551616 B", "18446745 TB"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        assert_eq!(Seconds::try_from("2 min".to_owned()), Ok(Seconds::of(120)));
    }

    #[test]
    fn keep_alive_takes_whole_seconds() {
        let keep_alive = |text: &str| KeepAlive::try_from(text.to_owned()).map(|time| time.0.as_secs());
        assert_eq!(
            (keep_alive("40 s"), keep_alive("2 min"), keep_alive("1000 ms")),
            (Ok(40), Ok(120), Ok(1))
        );
        for wrong in ["1500 ms", "500 ms", "10 h"] {
            assert!(keep_alive(wrong).is_err_and(|error| error.contains("from 1 to 32767")), "{wrong}");
        }
        assert!(keep_alive("25").is_err_and(|error| error.contains("is not a duration")));
    }

    #[test]
    fn bytes_are_shown_with_decimal_prefix() {
        for (bytes, shown) in [(999, "999 B"), (1_000, "1.00 kB"), (20_000_000_000, "20.00 GB")] {
            assert_eq!(Bytes::of(bytes).to_string(), shown);
        }
    }
}
