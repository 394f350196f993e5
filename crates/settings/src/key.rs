//! Keys of settings: name, notation, meaning and protocols.

use super::protocols::Protocols;
use super::quantity::{self, Family, SIZE, TIME};
use super::setting::Value;
use super::suggest::remedy;
use super::text::quoted;
use super::words::{Choice, path_managers};
use anabranch_base::time::Duration;
use anabranch_multipath::path_manager;

/// The key of a setting. Equal keys of several protocols are one key in documents.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The notation of its values.
    pub takes: Takes,
    /// Its meaning and its source, in one or two sentences.
    pub text: &'static str,
    /// The protocols whose flows have it.
    pub protocols: Protocols,
    /// For a key that is not a flag: the value for which `true` stands. `true` stands for the default if this is `None`.
    pub on: Option<fn() -> Value>,
    /// Description of the default where the default is no value.
    pub absent: Option<&'static str>,
    /// Its place in the canonical form of a scenario.
    pub place: Place,
}

/// The place of a key in the canonical form of a scenario. Keys with the same place keep the order in which
/// they are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The part of the flow to which it belongs.
    pub part: Part,
    /// Whether it is written only if it has not its default: such a key is younger than stored scenarios, and
    /// those without it keep their canonical form.
    pub unless_default: bool,
}

/// Parts of a flow's settings, in the order of the canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Keys of every connection.
    Connection,
    /// Keys of single protocols.
    Protocol,
    /// Keys of connections with several paths.
    Multipath,
}

/// The notation of a key's values.
#[derive(Clone, Copy, Debug)]
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
    /// A time; zero only if allowed.
    Time {
        /// Whether it may be zero.
        zero: bool,
    },
    /// A size greater than zero, or `auto`.
    Buffer,
    /// A word from a list.
    OneOf(fn() -> Vec<Choice>),
    /// A path manager, with its parameter after a colon.
    PathManager,
    /// Whole numbers from `min` to `max`, one for each stream; the empty list is the default.
    Integers {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// Any of these notations.
    Either(&'static [Takes]),
}

/// The word for an automatic size of a buffer.
pub const AUTO: &str = "auto";

impl Key {
    /// A key of all flows of its protocol.
    pub const fn new(name: &'static str, takes: Takes, text: &'static str) -> Self {
        let place = Place { part: Part::Protocol, unless_default: false };
        Self { name, takes, text, protocols: Protocols::ALL, on: None, absent: None, place }
    }

    /// Restricts the key to these protocols.
    #[must_use]
    pub const fn only(mut self, protocols: Protocols) -> Self {
        self.protocols = self.protocols.and(protocols);
        self
    }

    /// The value of `true`.
    #[must_use]
    pub const fn on(mut self, value: fn() -> Value) -> Self {
        self.on = Some(value);
        self
    }

    /// Describes a default that is no value; the key is then written only if it is set.
    #[must_use]
    pub const fn absent(self, meaning: &'static str) -> Self {
        let mut key = self.unless_default();
        key.absent = Some(meaning);
        key
    }

    /// Puts the key among those of this part in the canonical form.
    #[must_use]
    pub const fn part(mut self, part: Part) -> Self {
        self.place.part = part;
        self
    }

    /// Leaves the key out of the canonical form where it has its default.
    #[must_use]
    pub const fn unless_default(mut self) -> Self {
        self.place.unless_default = true;
        self
    }
}

impl Takes {
    /// Reads a value.
    ///
    /// # Errors
    ///
    /// The end of a sentence that begins with the key: the problem and the remedy.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let wanted = || format!("is {}; write {}", quoted(text), self.notation());
        let quantity = |family: &'static Family| {
            quantity::parse(text, &[family])
                .map(|found| found.value)
                .map_err(|problem| format!("is wrong: {problem}"))
        };
        match *self {
            Self::Flag => text.parse().map(Value::Flag).map_err(|_| wanted()),
            Self::Integer { min, max } => {
                let number = text.parse().ok().filter(|number| (min..=max).contains(number));
                number.map(Value::Integer).ok_or_else(wanted)
            }
            Self::Number { min, max } => {
                let number = text.parse().ok().filter(|number| (min..=max).contains(number));
                number.map(Value::Number).ok_or_else(wanted)
            }
            Self::Time { zero } => match quantity(&TIME)? {
                0 if !zero => Err(wanted()),
                nanos => Ok(Value::Time(Duration::from_nanos(nanos))),
            },
            Self::Buffer if text == AUTO => Ok(Value::Word(AUTO)),
            Self::Buffer => match quantity(&SIZE)? {
                0 => Err(wanted()),
                bytes => Ok(Value::Size(bytes)),
            },
            Self::OneOf(list) => self.word(text).map(Value::Word).ok_or_else(|| {
                let names: Vec<_> = list().iter().map(|choice| choice.name).collect();
                format!("is {}; {}", quoted(text), remedy(text, &names, "valid values"))
            }),
            Self::PathManager => path_manager::parse(text)
                .map(Value::PathManager)
                .map_err(|problem| format!("is wrong: {problem}")),
            Self::Integers { min, max } => {
                let number =
                    |part: &str| part.trim().parse().ok().filter(|number| (min..=max).contains(number));
                let parts = text.split(',').filter(|_| !text.trim().is_empty());
                parts.map(number).collect::<Option<_>>().map(Value::Integers).ok_or_else(wanted)
            }
            Self::Either(all) => all.iter().find_map(|takes| takes.read(text).ok()).ok_or_else(wanted),
        }
    }

    /// The word from a list for this name or alias.
    pub fn word(&self, name: &str) -> Option<&'static str> {
        match self {
            Self::OneOf(list) => {
                let all = list();
                let mut found =
                    all.iter().filter(|choice| choice.name == name || choice.aliases.contains(&name));
                found.next().map(|choice| choice.name)
            }
            Self::Buffer => (name == AUTO).then_some(AUTO),
            Self::Either(all) => all.iter().find_map(|takes| takes.word(name)),
            _ => None,
        }
    }

    /// The notation in words, after "write".
    fn notation(&self) -> String {
        match self {
            Self::Flag => "true or false".into(),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Time { zero: true } => "a time such as \"20 ms\"".into(),
            Self::Time { zero: false } => "a time above 0 such as \"20 ms\"".into(),
            Self::Buffer => "a size above 0 such as \"500 kB\", or \"auto\"".into(),
            Self::OneOf(list) => list().iter().map(|choice| choice.name).collect::<Vec<_>>().join(", "),
            Self::PathManager => {
                path_managers().iter().map(|choice| choice.name).collect::<Vec<_>>().join(", ")
            }
            Self::Integers { min, max } => {
                format!("whole numbers from {min} to {max}, separated by commas")
            }
            Self::Either(all) => all.iter().map(Self::notation).collect::<Vec<_>>().join(", or "),
        }
    }

    /// Values of every type that the notation allows, the smallest ones among them: for tests that vary a
    /// setting.
    pub fn samples(&self) -> Vec<Value> {
        match *self {
            Self::Flag => vec![Value::Flag(false), Value::Flag(true)],
            Self::Integer { min, max } => [0, 1, 2, 5]
                .map(|more| min + more)
                .into_iter()
                .filter(|number| *number <= max)
                .map(Value::Integer)
                .collect(),
            Self::Number { min, max } => {
                [0.25, 0.5, 1.0].map(|part| Value::Number(min + part * (max - min))).into()
            }
            Self::Time { zero } => {
                let times = [0, 10, 50, 250].into_iter().filter(|millis| zero || *millis > 0);
                times.map(|millis| Value::Time(Duration::from_millis(millis))).collect()
            }
            Self::Buffer => [3_000, 50_000, 300_000].map(Value::Size).into(),
            Self::OneOf(list) => list().iter().map(|choice| Value::Word(choice.name)).collect(),
            Self::PathManager => {
                let names = path_managers().into_iter().map(|choice| choice.name.replace('N', "2"));
                names.filter_map(|name| path_manager::parse(&name).ok()).map(Value::PathManager).collect()
            }
            Self::Integers { min, max } => [vec![], vec![min], vec![max]].map(Value::Integers).into(),
            Self::Either(all) => all.iter().flat_map(Self::samples).collect(),
        }
    }
}
