//! Empty columns for keys, from their types as written in Rust.

use super::column::{Column, Key, List, MAX_KEYS, Part, Table, Values};
use super::texts::Texts;
use crate::result::document::{Field, parts};
use std::collections::BTreeMap;

/// Name of the part that a whole result is.
const RESULT: &str = "RunResult";
/// The key that a document may have in addition to a result.
const SCENARIO: &str = "scenario";

/// The parts of results by the names of their types.
pub(super) struct Layout(BTreeMap<&'static str, &'static [Field]>);

impl Layout {
    pub(super) fn of_results() -> Self {
        Self(parts().into_iter().collect())
    }

    /// The empty columns of keys, each with its name, its type and whether it may be absent.
    pub(super) fn part<'a>(
        &self,
        keys: impl Iterator<Item = (&'a str, &'a str, bool)>,
    ) -> Result<Part, String> {
        let key = |(name, kind, may_be_absent): (&str, &str, bool)| {
            let column = self.column(&kind.replace(' ', ""))?;
            Ok(Key { name: name.to_owned(), column, may_be_absent })
        };
        let keys = keys.map(key).collect::<Result<Vec<_>, String>>()?;
        assert!(keys.len() < MAX_KEYS, "a part has {} keys", keys.len());
        Ok(Part { rows: 0, keys })
    }

    fn column(&self, kind: &str) -> Result<Column, String> {
        if let Some(kind) = inner(kind, "Option<") {
            return Ok(Column { may_be_null: true, ..self.column(kind)? });
        }
        Ok(Column::new(match kind {
            "f64" => Values::F64(Vec::new()),
            "u64" | "u32" | "u16" => Values::U64(Vec::new()),
            "bool" => Values::Bool(Vec::new()),
            "String" => Values::Text(Texts::default()),
            _ => self.compound(kind)?,
        }))
    }

    fn compound(&self, kind: &str) -> Result<Values, String> {
        if let Some(fields) = self.0.get(kind) {
            let mut part =
                self.part(fields.iter().map(|field| (field.name, field.kind, field.may_be_absent)))?;
            if kind == RESULT {
                let column = Column::new(Values::Ignored(0));
                part.keys.push(Key { name: SCENARIO.to_owned(), column, may_be_absent: true });
            }
            return Ok(Values::Part(part));
        }
        let array = kind.strip_prefix('[').and_then(|rest| rest.split_once(';')).map(|(item, _)| item);
        if let Some(item) = array.or_else(|| inner(kind, "Vec<")) {
            return Ok(Values::List(List::of(self.column(item)?)));
        }
        if let Some(value) = inner(kind, "BTreeMap<String,") {
            return Ok(Values::Table(Table::of(self.column(value)?)));
        }
        kind.parse().map(|number| Values::Exactly(number, 0)).map_err(|_| format!("unknown type {kind}"))
    }
}

/// The type within a generic one.
fn inner<'a>(kind: &'a str, outer: &str) -> Option<&'a str> {
    kind.strip_prefix(outer)?.strip_suffix('>')
}
