//! Values as TOML text.

use super::quantity::{RATE, SIZE, TIME};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_settings::setting::Value;

/// The value of a protocol's setting.
pub(super) fn setting(value: Value) -> String {
    match value {
        Value::Flag(flag) => flag.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::Number(value) => number(value),
        Value::Time(value) => time(value),
        Value::Size(bytes) => size(bytes),
        Value::Word(word) => quoted(word),
        Value::PathManager(choice) => quoted(&choice.to_string()),
    }
}

pub(super) fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

pub(super) fn time(duration: Duration) -> String {
    quoted(&TIME.written(duration.as_nanos()))
}

pub(super) fn moment(at: Time) -> String {
    time(at.since(Time::ZERO))
}

pub(super) fn rate(rate: Rate) -> String {
    quoted(&RATE.written(rate.bits_per_second()))
}

pub(super) fn size(bytes: u64) -> String {
    quoted(&SIZE.written(bytes))
}

/// The shortest text that parses to the same number.
pub(super) fn number(number: f64) -> String {
    format!("{number:?}")
}
