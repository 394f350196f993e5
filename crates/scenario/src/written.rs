//! Values of the canonical form, as TOML and as JSON.

use super::quantity::{RATE, SIZE, TIME};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_settings::setting::Value;
use serde_json::Value as Json;

/// A value of the canonical form.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Written {
    Flag(bool),
    Integer(u64),
    Number(f64),
    Text(String),
    List(Vec<Written>),
    Table(Entries),
}

/// Keys with their values.
pub(super) type Entries = Vec<(&'static str, Written)>;

impl Written {
    /// The value as TOML, in one line.
    pub fn toml(&self) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Integer(integer) => integer.to_string(),
            // The shortest text that parses to the same number.
            Self::Number(number) => format!("{number:?}"),
            Self::Text(text) => toml_edit::Value::from(text).to_string(),
            Self::List(items) => {
                format!("[{}]", items.iter().map(Self::toml).collect::<Vec<_>>().join(", "))
            }
            Self::Table(entries) => {
                let entries: Vec<_> =
                    entries.iter().map(|(key, value)| format!("{key} = {}", value.toml())).collect();
                format!("{{ {} }}", entries.join(", "))
            }
        }
    }

    /// The value as JSON.
    pub fn json(self) -> Json {
        match self {
            Self::Flag(flag) => flag.into(),
            Self::Integer(integer) => integer.into(),
            Self::Number(number) => number.into(),
            Self::Text(text) => text.into(),
            Self::List(items) => items.into_iter().map(Self::json).collect(),
            Self::Table(entries) => {
                entries.into_iter().map(|(key, value)| (key.to_owned(), value.json())).collect()
            }
        }
    }
}

impl From<bool> for Written {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u64> for Written {
    fn from(integer: u64) -> Self {
        Self::Integer(integer)
    }
}

impl From<u32> for Written {
    fn from(integer: u32) -> Self {
        Self::Integer(integer.into())
    }
}

impl From<f64> for Written {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Value> for Written {
    /// The value of a protocol's setting.
    fn from(value: Value) -> Self {
        match value {
            Value::Flag(flag) => flag.into(),
            Value::Integer(integer) => integer.into(),
            Value::Number(number) => number.into(),
            Value::Time(value) => time(value),
            Value::Size(bytes) => size(bytes),
            Value::Word(word) => text(word),
            Value::PathManager(choice) => text(choice.to_string()),
            Value::Integers(numbers) => Written::List(numbers.into_iter().map(Written::from).collect()),
        }
    }
}

pub(super) fn text(text: impl Into<String>) -> Written {
    Written::Text(text.into())
}

pub(super) fn time(duration: Duration) -> Written {
    text(TIME.written(duration.as_nanos()))
}

pub(super) fn moment(at: Time) -> Written {
    time(at.since(Time::ZERO))
}

pub(super) fn rate(rate: Rate) -> Written {
    text(RATE.written(rate.bits_per_second()))
}

pub(super) fn size(bytes: u64) -> Written {
    text(SIZE.written(bytes))
}
