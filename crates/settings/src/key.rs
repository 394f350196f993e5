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
    /// The name.
    pub name: &'static str,
    /// The notation of the values.
    pub takes: Takes,
    /// The meaning of the setting and its source, in one or two sentences.
    pub text: &'static str,
    /// The protocols whose flows have the setting.
    pub protocols: Protocols,
    /// For a key that is not a flag: the value for which `true` stands. If this is `None`, `true` stands for the
    /// default.
    pub on: Option<fn() -> Value>,
    /// The meaning of a missing value, if the default is no value.
    pub absent: Option<&'static str>,
    /// The position of the key in the canonical form of a scenario.
    pub place: Place,
}

/// The position of a key in the canonical form of a scenario. Keys with the same position keep the order in
/// which they are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The part of the flow to which the key belongs.
    pub part: Part,
    /// True if the canonical form contains the key only if its value differs from the default. Such a key is newer
    /// than stored scenarios; scenarios without the key keep their canonical form.
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
    /// A time; zero only if allowed.
    Time {
        /// True if the time may be zero.
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
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// Any of these notations.
    Either(&'static [Takes]),
}

/// Value of a buffer whose size is automatic.
pub const AUTO_BUFFER: &str = "auto";

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

    /// Sets the value for which `true` stands.
    #[must_use]
    pub const fn on(mut self, value: fn() -> Value) -> Self {
        self.on = Some(value);
        self
    }

    /// Describes the meaning of a missing value; the canonical form then contains the key only if a scenario sets it.
    #[must_use]
    pub const fn absent(self, meaning: &'static str) -> Self {
        let mut key = self.unless_default();
        key.absent = Some(meaning);
        key
    }

    /// Places the key among the keys of this part in the canonical form.
    #[must_use]
    pub const fn part(mut self, part: Part) -> Self {
        self.place.part = part;
        self
    }

    /// Omits the key from the canonical form if its value equals the default.
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
            Self::Buffer if text == AUTO_BUFFER => Ok(Value::Word(AUTO_BUFFER)),
            Self::Buffer => match quantity(&SIZE)? {
                0 => Err(wanted()),
                bytes => Ok(Value::Size(bytes)),
            },
            Self::OneOf(list) => self.word(text).map(Value::Word).ok_or_else(|| {
                let names: Vec<_> = list().iter().map(|choice| choice.name).collect();
                format!("is {}; {}", quoted(text), remedy(text, &names, "valid values"))
            }),
            Self::PathManager => match path_manager::parse(text) {
                // Only a scenario names gateways.
                Ok(choice) if choice.entry.uses_gateways => {
                    Err(format!("is {}, which only scenarios can use: a host needs gateways", quoted(text)))
                }
                Ok(choice) => Ok(Value::PathManager(choice)),
                Err(problem) => Err(format!("is wrong: {problem}")),
            },
            Self::Integers { min, max } => {
                let number =
                    |part: &str| part.trim().parse().ok().filter(|number| (min..=max).contains(number));
                let parts = text.split(',').filter(|_| !text.trim().is_empty());
                parts.map(number).collect::<Option<_>>().map(Value::Integers).ok_or_else(wanted)
            }
            Self::Either(all) => all.iter().find_map(|takes| takes.read(text).ok()).ok_or_else(wanted),
        }
    }

    /// The word with this name or alias, if the list has one.
    pub fn word(&self, name: &str) -> Option<&'static str> {
        match self {
            Self::OneOf(list) => {
                let all = list();
                let mut found =
                    all.iter().filter(|choice| choice.name == name || choice.aliases.contains(&name));
                found.next().map(|choice| choice.name)
            }
            Self::Buffer => (name == AUTO_BUFFER).then_some(AUTO_BUFFER),
            Self::Either(all) => all.iter().find_map(|takes| takes.word(name)),
            _ => None,
        }
    }

    /// The notation in words that follow "write".
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

    /// Values of every type that the notation allows, the smallest values included, for tests that vary a setting.
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
                let managers = names.filter_map(|name| path_manager::parse(&name).ok());
                // Others need gateways of a host, too.
                let alone = managers.filter(|choice| !choice.entry.uses_gateways);
                alone.map(Value::PathManager).collect()
            }
            Self::Integers { min, max } => [vec![], vec![min], vec![max]].map(Value::Integers).into(),
            Self::Either(all) => all.iter().flat_map(Self::samples).collect(),
        }
    }
}
