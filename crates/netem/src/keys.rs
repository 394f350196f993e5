//! How queues, loss models and middleboxes tell by which keys scenarios set them: a neutral table that a parser, a schema, a
//! reference page and a list are made from.

use crate::limit::QueueLimit;
use anabranch_base::time::Duration;
use anabranch_base::units::Rate;

/// A kind of queue, loss model or middlebox.
#[derive(Debug)]
pub struct Kind {
    /// The word that scenarios use.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Where it is defined; empty where that needs no saying.
    pub source: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A key of a kind.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// What holds where it is not given.
    pub default: Default,
    /// One or two sentences for people.
    pub doc: &'static str,
}

/// What holds where a key is not given.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// It must be given, for example like this.
    Required(&'static str),
    /// This value, as scenarios write it.
    Is(&'static str),
}

/// What a key takes.
#[derive(Debug)]
pub enum Takes {
    /// `true` or `false`.
    Flag,
    /// A whole number from `min` to `max`.
    Integer {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// A number from `min` to `max`.
    Number {
        /// Least.
        min: f64,
        /// Most.
        max: f64,
    },
    /// A time above zero.
    Time,
    /// A rate above zero.
    Rate,
    /// Bytes of a packet, from `min` to `max`.
    Octets {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// The capacity of a queue: packets or bytes, at least one.
    Limit,
    /// Any of these; they differ in how they are written.
    Either(&'static [Takes]),
}

impl QueueLimit {
    /// The key `limit` of a queue with this default.
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Of [`Takes::Flag`].
    Flag(bool),
    /// Of [`Takes::Integer`] and [`Takes::Octets`].
    Integer(u64),
    /// Of [`Takes::Number`].
    Number(f64),
    /// Of [`Takes::Time`].
    Time(Duration),
    /// Of [`Takes::Rate`].
    Rate(Rate),
    /// Of [`Takes::Limit`].
    Limit(QueueLimit),
}

/// The values of all keys of a kind, given or default.
///
/// # Panics
/// The getters panic when asked for what the kind did not declare: that is a mistake of its file, never of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a>(pub &'a [(&'static str, Value)]);

macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty) => {
        #[doc = concat!("The value of a key that takes this, a `", stringify!($type), "`.")]
        pub fn $name(&self, key: &str) -> $type {
            match self.get(key) {
                Value::$variant(value) => value,
                other => panic!("{key} was declared to take another type than {other:?}"),
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

    /// The value of a key.
    pub fn get(&self, key: &str) -> Value {
        let found = self.0.iter().find(|(name, _)| *name == key);
        found.unwrap_or_else(|| panic!("{key} was not declared")).1
    }
}

/// What is wrong with the name of a kind.
pub fn unknown(kind: &str, kinds: &[&Kind]) -> Mistake {
    let names: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
    Mistake { keys: &[], problem: format!("is \"{kind}\"; the valid values are {}", names.join(", ")) }
}

/// What a kind is set to: read from the values of its keys, and written as such.
pub trait Keyed: Sized {
    /// What the values of its keys say.
    ///
    /// # Errors
    /// If they do not go together.
    fn read(values: Values<'_>) -> Result<Self, Mistake>;

    /// The values of its keys, from which the same is read.
    fn values(&self) -> Vec<(&'static str, Value)>;
}

/// What is wrong with the values of a kind, each of which is valid by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The keys concerned; the sentence is about the first.
    pub keys: &'static [&'static str],
    /// What follows "`KEY` of such-and-such a queue": a verb, what is wrong, and the remedy.
    pub problem: String,
}
