//! Orders to a running scenario: changes of links and flows at the present time, in the notation of `[[event]]`.

use super::build;
use super::document::{Data, Entry, Node, Table};
use super::error::{Fault, InputError, Origin, one_line};
use super::model::{Event, Scenario};
use anabranch_base::time::Time;
use serde_json::Value;

/// Reads an order for the time `at` from JSON: the keys `link`, `flow`, `direction` and `set` of an `[[event]]`, with
/// the same values. The scenario's events up to that time precede it. The result has one event, or several if a new queue
/// differs between the directions.
///
/// # Errors
///
/// The first error found, in one sentence with its remedy.
pub fn order(scenario: &Scenario, at: Time, json: &str) -> Result<Vec<Event>, InputError> {
    let read = || {
        let value: Value = serde_json::from_str(json).map_err(|error| {
            let reason = one_line(&error.to_string());
            Fault::new(Origin::Nowhere, format!("the order is not JSON ({reason}); write {EXAMPLE_ORDER}"))
        })?;
        match node(&value) {
            Some(Node { data: Data::Table(table), .. }) => build::order(&table, scenario, at),
            _ => Err(Fault::new(
                Origin::Nowhere,
                format!("the order is not a table of values; write {EXAMPLE_ORDER}"),
            )),
        }
    };
    read().map_err(|fault| InputError::without_place(fault.message))
}

/// An order for messages.
const EXAMPLE_ORDER: &str = "for example {\"link\": \"wlan\", \"set\": {\"rate\": \"5 Mbit/s\"}}";

/// A value of JSON as a value of TOML; `None` if there is none, as for `null`.
fn node(value: &Value) -> Option<Node> {
    let data = match value {
        Value::Null => return None,
        Value::Bool(flag) => Data::Flag(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Data::Integer(integer),
            None => Data::Float(number.as_f64()?),
        },
        Value::String(text) => Data::Text(text.clone()),
        Value::Array(items) => Data::List(items.iter().map(node).collect::<Option<_>>()?),
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| {
                Some(Entry { key: key.clone(), origin: Origin::Nowhere, node: node(value)? })
            };
            Data::Table(Table { entries: entries.iter().map(entry).collect::<Option<_>>()? })
        }
    };
    Some(Node { origin: Origin::Nowhere, data })
}
