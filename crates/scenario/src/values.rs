//! Checked tables: a typed value for every key, given or default.

use super::error::Origin;
use super::model::QueueLimit;
use anabranch_base::time::Duration;
use anabranch_base::units::Rate;

/// A checked value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Flag(bool),
    Integer(u64),
    Number(f64),
    Time(Duration),
    Rate(Rate),
    Size(u64),
    Limit(QueueLimit),
    List(Vec<Value>),
    Table(Values),
}

/// A checked value and its place.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub key: &'static str,
    pub origin: Origin,
    pub value: Value,
}

/// The checked values of a table. Getters panic for keys or types that the table of keys does not declare: a
/// bug of ours, never of the input.
#[derive(Clone, Debug)]
pub(super) struct Values {
    /// Kind of the table, if it has a tag.
    pub kind: Option<&'static str>,
    pub entries: Vec<Checked>,
}

impl Values {
    pub fn find(&self, key: &str) -> Option<&Checked> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The place of a key's value; nowhere if it is the default.
    pub fn origin(&self, key: &str) -> Origin {
        self.find(key).map_or(Origin::Nowhere, |entry| entry.origin)
    }

    /// The value of a key that is required, or has a default and is no setting of a protocol.
    pub fn get(&self, key: &str) -> &Checked {
        self.find(key).unwrap_or_else(|| panic!("no default for {key}"))
    }

    /// The kind of a tagged table.
    pub fn kind(&self) -> &'static str {
        self.kind.expect("only tagged tables have a kind")
    }

    pub fn text(&self, key: &str) -> &str {
        self.get(key).value.text()
    }

    pub fn flag(&self, key: &str) -> bool {
        self.get(key).value.flag()
    }

    pub fn integer(&self, key: &str) -> u64 {
        self.get(key).value.integer()
    }

    pub fn number(&self, key: &str) -> f64 {
        self.get(key).value.number()
    }

    pub fn time(&self, key: &str) -> Duration {
        self.get(key).value.time()
    }

    pub fn size(&self, key: &str) -> u64 {
        self.get(key).value.size()
    }

    pub fn table(&self, key: &str) -> &Values {
        self.get(key).value.table()
    }
}

macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty) => {
        pub fn $name(&self) -> $type {
            match self {
                Self::$variant(value) => *value,
                other => panic!("the table of keys declares another type than {other:?}"),
            }
        }
    };
}

impl Value {
    getter!(flag, Flag, bool);
    getter!(integer, Integer, u64);
    getter!(number, Number, f64);
    getter!(time, Time, Duration);
    getter!(rate, Rate, Rate);
    getter!(size, Size, u64);

    pub fn text(&self) -> &str {
        match self {
            Self::Text(value) => value,
            other => panic!("the table of keys declares another type than {other:?}"),
        }
    }

    pub fn list(&self) -> &[Value] {
        match self {
            Self::List(values) => values,
            other => panic!("the table of keys declares another type than {other:?}"),
        }
    }

    pub fn table(&self) -> &Values {
        match self {
            Self::Table(values) => values,
            other => panic!("the table of keys declares another type than {other:?}"),
        }
    }
}
