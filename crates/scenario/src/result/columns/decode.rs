//! Decoding of JSON into columns.

use super::column::{Column, Key, MAX_KEYS, Part, Table, Values};
use super::texts::Texts;
use core::fmt::{self, Formatter};
use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};

impl Part {
    /// Adds a row from an object.
    pub(super) fn decode<'de, D: Deserializer<'de>>(&mut self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Part {
    type Value = ();

    fn expecting(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = [false; MAX_KEYS];
        let mut next = 0;
        while let Some(at) = map.next_key_seed(KeyIndex { keys: &self.keys, next })? {
            let key = &mut self.keys[at];
            if core::mem::replace(&mut seen[at], true) {
                return Err(Error::custom(format!("has {} twice", key.name)));
            }
            map.next_value_seed(&mut key.column)?;
            next = at + 1;
        }
        for (key, _) in self.keys.iter_mut().zip(seen).filter(|(_, seen)| !seen) {
            if !key.may_be_absent {
                return Err(Error::custom(format!("lacks {}", key.name)));
            }
            key.column.add_absent();
        }
        self.rows += 1;
        Ok(())
    }
}

/// Reads a key and returns its index. Documents have their keys in the order of the layout.
struct KeyIndex<'a> {
    keys: &'a [Key],
    /// The index after that of the key before.
    next: usize,
}

impl<'de> DeserializeSeed<'de> for KeyIndex<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyIndex<'_> {
    type Value = usize;

    fn expecting(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str("a key")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
        let mut order = (self.next..self.keys.len()).chain(0..self.next);
        order
            .find(|at| self.keys[*at].name == name)
            .ok_or_else(|| E::custom(format!("has {name:?}, which is not known")))
    }
}

impl<'de> DeserializeSeed<'de> for &mut Column {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if let Values::Ignored(rows) = &mut self.values {
            *rows += 1;
            return from.deserialize_ignored_any(IgnoredAny).map(drop);
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Column {
    type Value = ();

    fn expecting(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(match &self.values {
            Values::F64(_) => "a number",
            Values::U64(_) => "a whole number from 0 to 2^64 - 1",
            Values::Bool(_) => "true or false",
            Values::Text(_) => "a text",
            Values::List(_) => "a list",
            Values::Part(_) | Values::Table(_) => "a table",
            Values::Exactly(number, _) => return write!(to, "{number}"),
            Values::Ignored(_) => "a value",
        })
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        if !self.may_be_null {
            return Err(E::invalid_type(Unexpected::Unit, &self));
        }
        self.add_absent();
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        let Values::Bool(values) = &mut self.values else {
            return Err(E::invalid_type(Unexpected::Bool(value), &self));
        };
        values.push(value);
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        let Values::F64(values) = &mut self.values else {
            return Err(E::invalid_type(Unexpected::Float(value), &self));
        };
        values.push(value);
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match &mut self.values {
            Values::U64(values) => values.push(value),
            Values::F64(values) => values.push(value as f64),
            Values::Exactly(number, rows) if value == *number => *rows += 1,
            _ => return Err(E::invalid_type(Unexpected::Unsigned(value), &self)),
        }
        Ok(())
    }

    /// A negative whole number.
    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        let Values::F64(values) = &mut self.values else {
            return Err(E::invalid_type(Unexpected::Signed(value), &self));
        };
        values.push(value as f64);
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        let Values::Text(texts) = &mut self.values else {
            return Err(E::invalid_type(Unexpected::Str(value), &self));
        };
        texts.add(value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Values::List(list) = &mut self.values else {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        };
        while items.next_element_seed(&mut *list.items)?.is_some() {}
        list.end();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        match &mut self.values {
            Values::Part(part) => part.visit_map(map),
            Values::Table(table) => table.visit_map(map),
            _ => Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
    }
}

impl Table {
    fn visit_map<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        let begin = self.keys.codes.len();
        let mut before = self.begin_of_last_row()..begin;
        let mut is_same = true;
        loop {
            let expected = before.next().map(|at| self.keys.codes[at]);
            let Some(is_expected) = map.next_key_seed(TableKey { keys: &mut self.keys, expected })? else {
                break;
            };
            is_same &= is_expected;
            map.next_value_seed(&mut *self.values)?;
        }
        if !is_same && has_duplicates(&self.keys.codes[begin..]) {
            return Err(Error::custom("a table has a key twice"));
        }
        self.end();
        Ok(())
    }

    fn begin_of_last_row(&self) -> usize {
        self.ends.len().checked_sub(2).map_or(0, |row| self.ends[row] as usize)
    }
}

fn has_duplicates(codes: &[u32]) -> bool {
    let mut sorted = codes.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// Adds a key of a table; returns whether the table before has the same key at this place.
struct TableKey<'a> {
    keys: &'a mut Texts,
    /// Code of the key at the same place of the table before.
    expected: Option<u32>,
}

impl<'de> DeserializeSeed<'de> for TableKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for TableKey<'_> {
    type Value = bool;

    fn expecting(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        Ok(self.keys.add_expected(key, self.expected))
    }
}
