//! Rows: the fields of a protocol's settings with their keys.

use super::key::Key;
use super::setting::Value;
use super::suggest::remedy;
use super::text::quoted;

/// A key and its field.
pub struct Row<C> {
    /// The key.
    pub key: Key,
    get: Getter<C>,
    put: Putter<C>,
}

type Getter<C> = Box<dyn Fn(&C) -> Value + Send + Sync>;

/// Sets the field to a value; returns `None` if the field cannot have the value.
type Putter<C> = Box<dyn Fn(&mut C, Value) -> Option<()> + Send + Sync>;

impl<C: Table> Row<C> {
    /// A row of a field.
    pub(crate) fn new(key: Key, get: fn(&C) -> Value, put: fn(&mut C, Value) -> Option<()>) -> Self {
        Self { key, get: Box::new(get), put: Box::new(put) }
    }

    /// The rows of a nested struct of settings; `part` and `part_mut` return that struct.
    pub(crate) fn of_part<P: Table>(
        part: fn(&C) -> &P,
        part_mut: fn(&mut C) -> &mut P,
    ) -> impl Iterator<Item = Self> {
        P::rows().iter().map(move |row| Self {
            key: row.key,
            get: Box::new(move |config| row.get(part(config))),
            put: Box::new(move |config, value| (row.put)(part_mut(config), value)),
        })
    }

    /// The value of the field.
    pub fn get(&self, config: &C) -> Value {
        (self.get)(config)
    }

    /// Sets the field. `true` stands for the value that the key defines for it.
    ///
    /// # Errors
    ///
    /// The end of a sentence that begins with the key, if the field cannot have the value.
    pub fn put(&self, config: &mut C, value: Value) -> Result<(), String> {
        let is_on = value == Value::Flag(true);
        let meant = || self.key.on.map_or_else(|| self.get(&C::default()), |value| value());
        let mut put = (self.put)(config, value);
        if put.is_none() && is_on {
            put = (self.put)(config, meant());
        }
        put.ok_or_else(|| "has a value that this protocol does not support".to_owned())
    }
}

/// Settings whose fields have keys.
pub trait Table: Default + 'static {
    /// The names of the fields.
    const FIELDS: &'static [&'static str];

    /// The rows, in the order of documents.
    fn rows() -> &'static [Row<Self>];

    /// Sets the field of a key to a value.
    ///
    /// # Errors
    ///
    /// If there is no such key, or the field of the key cannot have the value; one sentence.
    fn put(&mut self, name: &str, value: Value) -> Result<(), String> {
        let row = row::<Self>(name)?;
        row.put(self, value).map_err(|problem| format!("{name} {problem}"))
    }

    /// Sets the field of a key to the value that a text describes.
    ///
    /// # Errors
    ///
    /// If there is no such key or the value is wrong: one sentence with the remedy.
    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let value = row::<Self>(name)?.key.takes.read(text).map_err(|problem| format!("{name} {problem}"))?;
        self.put(name, value)
    }

    /// The value of a key, if there is such a key.
    fn get(&self, name: &str) -> Option<Value> {
        row::<Self>(name).ok().map(|row| row.get(self))
    }
}

fn row<C: Table>(name: &str) -> Result<&'static Row<C>, String> {
    C::rows().iter().find(|row| row.key.name == name).ok_or_else(|| {
        let names: Vec<_> = C::rows().iter().map(|row| row.key.name).collect();
        format!("there is no setting {}; {}", quoted(name), remedy(name, &names, "settings"))
    })
}

/// Declares settings once: the fields of a `Config` with their types and defaults, and the rows of those that
/// scenarios set. A row has the key of a field, of a field within it (`at`), or of several fields (`by` a
/// getter and a setter).
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct Config for $protocols:ident $(with the keys of $part:ident)? {
            $(
                $(#[$doc:meta])*
                $field:ident: $type:ty = $default:expr
                $(=> $key:expr $(, at $($member:ident).+)? $(, by $get:expr, $put:expr)?)*;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct Config {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl Config {
            $(
                #[doc = concat!("Returns these settings with another value of `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }

        impl $crate::row::Table for Config {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn rows() -> &'static [$crate::row::Row<Self>] {
                use $crate::row::{Row, access};
                static ROWS: std::sync::LazyLock<Vec<Row<Config>>> = std::sync::LazyLock::new(|| {
                    let mut rows: Vec<Row<Config>> = Vec::new();
                    $(rows.extend(Row::of_part(|config: &Config| &config.$part, |config| &mut config.$part));)?
                    $($({
                        let (get, put) = access!(Config, $field $($(.$member)+)? $(, $get, $put)?);
                        rows.push(Row::new($key.only($crate::protocols::Protocols::$protocols), get, put));
                    })*)*
                    rows
                });
                &ROWS
            }
        }
    };
}

/// The getter and the setter of a field.
macro_rules! access {
    ($config:ident, $field:ident $(.$member:ident)*, $get:expr, $put:expr) => {{
        let get: fn(&$config) -> $crate::setting::Value = $get;
        let put: fn(&mut $config, $crate::setting::Value) -> Option<()> = $put;
        (get, put)
    }};
    ($config:ident, $field:ident $(.$member:ident)*) => {{
        let get: fn(&$config) -> $crate::setting::Value =
            |config| $crate::setting::Setting::value(&config.$field $(.$member)*);
        let put: fn(&mut $config, $crate::setting::Value) -> Option<()> = |config, value| {
            config.$field $(.$member)* = $crate::setting::Setting::of(value)?;
            Some(())
        };
        (get, put)
    }};
}

pub(crate) use {access, settings};
