//! Keys by which scenarios configure queues, loss models and middleboxes: a neutral table from which the
//! parser, the schema, the reference page and lists are generated.

use crate::limit::QueueLimit;
use crate::series::Series;
use anabranch_base::time::Duration;
use anabranch_base::units::Rate;
use std::sync::Arc;

/// A kind of queue, loss model or middlebox.
#[derive(Debug)]
pub struct Kind {
    /// Name in scenarios.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// The defining publication; empty if none is needed.
    pub source: &'static str,
    /// The keys of the kind's settings.
    pub keys: &'static [Key],
}

/// A key of a kind.
#[derive(Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Type of the key's values.
    pub takes: Takes,
    /// The value if the key is not given.
    pub default: Default,
    /// Description in one or two sentences.
    pub doc: &'static str,
}

/// The value of a key that is not given.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// The key has no default and must be given; the text is an example.
    Required(&'static str),
    /// The default value, in the notation of scenarios.
    Is(&'static str),
}

/// The type of a key's values.
#[derive(Debug)]
pub enum Takes {
    /// `true` or `false`.
    Flag,
    /// A whole number from `min` to `max`.
    Integer {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// A number from `min` to `max`.
    Number {
        /// Minimum.
        min: f64,
        /// Maximum.
        max: f64,
    },
    /// A time above zero.
    Time,
    /// A rate above zero.
    Rate,
    /// Length of a packet, from `min` to `max` bytes.
    Octets {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// The capacity of a queue: packets or bytes, at least one.
    Limit,
    /// A word from this list.
    Word(&'static [Word]),
    /// Whole numbers from 1 on, in ascending order.
    Ascending,
    /// The name of a CSV file with probabilities over time, in the columns `time_s` and `column`.
    Probabilities {
        /// Name of the second column.
        column: &'static str,
    },
    /// A value of one of several types, which have different notations.
    Either(&'static [Takes]),
}

/// A word that a key takes.
#[derive(Debug)]
pub struct Word {
    /// The word.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
}

impl QueueLimit {
    /// The key `limit` of a queue, with this default.
    pub(crate) const fn key(default: &'static str) -> Key {
        Key {
            name: "limit",
            takes: Takes::Limit,
            default: Default::Is(default),
            doc: "Capacity, in packets or bytes. The packet that is being transmitted does not count.",
        }
    }
}

/// A probability.
pub const PROBABILITY: Takes = Takes::Number { min: 0.0, max: 1.0 };

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A value of the type [`Takes::Flag`].
    Flag(bool),
    /// A value of the types [`Takes::Integer`] and [`Takes::Octets`].
    Integer(u64),
    /// A value of the type [`Takes::Number`].
    Number(f64),
    /// A value of the type [`Takes::Time`].
    Time(Duration),
    /// A value of the type [`Takes::Rate`].
    Rate(Rate),
    /// A value of the type [`Takes::Limit`].
    Limit(QueueLimit),
    /// A value of the type [`Takes::Word`].
    Word(&'static str),
    /// A value of the type [`Takes::Ascending`].
    Ascending(Arc<[u64]>),
    /// A value of the type [`Takes::Probabilities`].
    Series(Series),
}

/// The values of all keys of a kind, given or default.
///
/// # Panics
///
/// The getters panic for a key that the kind did not declare. This is a bug in the kind's file; a scenario cannot cause
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a>(pub &'a [(&'static str, Value)]);

macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty) => {
        #[doc = concat!("The value of a key of this type, a `", stringify!($type), "`.")]
        pub fn $name(&self, key: &str) -> $type {
            match self.get(key) {
                Value::$variant(value) => value,
                other => panic!("the kind declares {key} with another type than {other:?}"),
            }
        }
    };
}

impl Values<'_> {
    getter!(flag, Flag, bool);
    getter!(integer, Integer, u64);
    getter!(number, Number, f64);
    getter!(time, Time, Duration);
    getter!(rate, Rate, Rate);
    getter!(limit, Limit, QueueLimit);
    getter!(word, Word, &'static str);
    getter!(ascending, Ascending, Arc<[u64]>);
    getter!(series, Series, Series);

    /// The value of a key.
    pub fn get(&self, key: &str) -> Value {
        let found = self.0.iter().find(|(name, _)| *name == key);
        found.unwrap_or_else(|| panic!("the kind does not declare the key {key}")).1.clone()
    }
}

/// The error for an unknown kind.
pub fn unknown(kind: &str, kinds: &[&Kind]) -> InvalidValues {
    let names: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
    InvalidValues { keys: &[], problem: format!("is \"{kind}\"; the valid values are {}", names.join(", ")) }
}

/// Settings of a kind, converted from and to the values of its keys.
pub trait Keyed: Sized {
    /// Settings from the values of the keys.
    ///
    /// # Errors
    ///
    /// If the values are inconsistent.
    fn read(values: Values<'_>) -> Result<Self, InvalidValues>;

    /// The values of the keys, from which [`read`](Self::read) makes equal settings.
    fn values(&self) -> Vec<(&'static str, Value)>;

    /// Values that [`values`](Self::values) leaves out, because they are the defaults. They have to be written where
    /// other settings would be inherited instead.
    fn defaults_left_out(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Like [`values`](Self::values), but lengths in the unit of a queue's limit are shares of it.
    fn values_by_share(&self) -> Vec<(&'static str, Value)> {
        self.values()
    }
}

/// An unknown kind, or values of keys that are valid alone but not together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidValues {
    /// The keys that are invalid together. The message begins with the first of them.
    pub keys: &'static [&'static str],
    /// The rest of a message that begins with the key and its queue, loss model or middlebox: a verb, the
    /// problem, and the remedy.
    pub problem: String,
}
