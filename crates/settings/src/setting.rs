//! Values of settings in the notation of scenarios, and their conversion from and to the types of fields.

use super::quantity::{SIZE, TIME};
use super::words::{Words, find, word};
use anabranch_base::time::Duration;
use anabranch_multipath::buffer::{Rescheduling, Sides};
use anabranch_multipath::{congestion, path_manager, scheduler};
use anabranch_wire::sctp::encapsulation::Ports;

/// A value in the notation of scenarios.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Integer(u64),
    /// A number.
    Number(f64),
    /// A time.
    Time(Duration),
    /// A number of bytes.
    Size(u64),
    /// A word from a list.
    Word(&'static str),
    /// A path manager with its parameter.
    PathManager(path_manager::Choice),
    /// Whole numbers.
    Integers(Vec<u64>),
}

impl Value {
    /// The word, if the value is one.
    pub const fn word(&self) -> Option<&'static str> {
        match self {
            Self::Word(word) => Some(*word),
            _ => None,
        }
    }

    /// The text that [`Takes::read`](super::key::Takes::read) reads as this value.
    pub fn text(&self) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Integer(integer) => integer.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Time(time) => TIME.written(time.as_nanos()),
            Self::Size(bytes) => SIZE.written(*bytes),
            Self::Word(word) => (*word).to_owned(),
            Self::PathManager(choice) => choice.to_string(),
            Self::Integers(numbers) => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
        }
    }
}

/// A type of fields that scenarios can set.
pub trait Setting: Sized {
    /// The value in a scenario that corresponds to the field.
    fn value(&self) -> Value;

    /// The field that corresponds to a value; `None` if the field cannot have it.
    fn of(value: Value) -> Option<Self>;
}

macro_rules! plain {
    ($type:ty, $variant:ident) => {
        impl Setting for $type {
            fn value(&self) -> Value {
                Value::$variant((*self).into())
            }

            fn of(value: Value) -> Option<Self> {
                match value {
                    Value::$variant(value) => value.try_into().ok(),
                    _ => None,
                }
            }
        }
    };
}

plain!(bool, Flag);
plain!(u16, Integer);
plain!(u32, Integer);
plain!(f64, Number);
plain!(Duration, Time);
plain!(path_manager::Choice, PathManager);
// A number of bytes.
plain!(u64, Size);

impl<T: Words> Setting for T {
    fn value(&self) -> Value {
        Value::Word(word(T::WORDS, self))
    }

    fn of(value: Value) -> Option<Self> {
        find(T::WORDS, value.word()?)
    }
}

/// `false` in a scenario stands for `None`.
impl<T: Setting> Setting for Option<T> {
    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Flag(false), T::value)
    }

    fn of(value: Value) -> Option<Self> {
        if value == Value::Flag(false) { Some(None) } else { T::of(value).map(Some) }
    }
}

/// One number for each stream.
impl Setting for Box<[u16]> {
    fn value(&self) -> Value {
        Value::Integers(self.iter().map(|&number| number.into()).collect())
    }

    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Integers(numbers) => numbers.into_iter().map(|number| number.try_into().ok()).collect(),
            _ => None,
        }
    }
}

impl Setting for &'static congestion::Entry {
    fn value(&self) -> Value {
        Value::Word(self.name)
    }

    fn of(value: Value) -> Option<Self> {
        congestion::Choice::find(value.word()?).map(|choice| choice.entry)
    }
}

impl Setting for &'static scheduler::Entry {
    fn value(&self) -> Value {
        Value::Word(self.name)
    }

    fn of(value: Value) -> Option<Self> {
        scheduler::find(value.word()?)
    }
}

/// A threshold, or `false` for no rescheduling.
impl Setting for Rescheduling {
    fn value(&self) -> Value {
        if self.sides == Sides::None { Value::Flag(false) } else { Value::Number(self.threshold) }
    }

    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Flag(false) => Some(Self::default()),
            Value::Number(threshold) => Some(Self { sides: Sides::Both, threshold }),
            _ => None,
        }
    }
}

/// A flag: encapsulation between the registered ports.
impl Setting for Option<Ports> {
    fn value(&self) -> Value {
        Value::Flag(self.is_some())
    }

    fn of(value: Value) -> Option<Self> {
        bool::of(value).map(|on| on.then(Ports::default))
    }
}
