//! Tables of algorithms. A program can add entries for algorithms of other crates before it reads scenarios.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::{PoisonError, RwLock};

/// An entry of a table, found by name.
pub trait Named: 'static {
    /// The kind of algorithm in the table, as messages call it.
    const KIND: &'static str;
    /// The name used in scenarios.
    fn name(&self) -> &'static str;
    /// Other names that scenarios may use.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }
}

/// A table with fixed entries and entries that were added later. Entries stay until the process ends.
#[derive(Debug)]
pub(crate) struct Registry<T: 'static> {
    fixed: &'static [T],
    added: RwLock<Vec<&'static T>>,
}

impl<T: Named> Registry<T> {
    pub(crate) const fn new(fixed: &'static [T]) -> Self {
        Self { fixed, added: RwLock::new(Vec::new()) }
    }

    /// Returns all entries: the fixed ones, then the added ones.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static T> + use<T> {
        let added = self.added.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.fixed.iter().chain(added)
    }

    /// Returns the entry with this name or alias.
    pub(crate) fn find(&self, name: &str) -> Option<&'static T> {
        // Search the fixed entries first, because they need no lock and most names are among them.
        let fixed = self.fixed.iter().find(|entry| is_called(*entry, name));
        fixed.or_else(|| {
            let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
            added.iter().copied().find(|entry| is_called(*entry, name))
        })
    }

    /// Adds an entry, unless its name or an alias is taken or not valid.
    pub(crate) fn add(&self, entry: T) -> Result<&'static T, Refused> {
        let mut added = self.added.write().unwrap_or_else(PoisonError::into_inner);
        for &name in entry.aliases().iter().chain([&entry.name()]) {
            if !is_word(name) {
                return Err(Refused::NotAWord { kind: T::KIND, name: name.to_owned() });
            }
            if self.fixed.iter().chain(added.iter().copied()).any(|known| is_called(known, name)) {
                return Err(Refused::Taken { kind: T::KIND, name: name.to_owned() });
            }
        }
        let entry: &'static T = Box::leak(Box::new(entry));
        added.push(entry);
        Ok(entry)
    }
}

fn is_called(entry: &impl Named, name: &str) -> bool {
    entry.name() == name || entry.aliases().contains(&name)
}

/// True if a name has the same form as the names in the tables.
fn is_word(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_part)
}

/// The reason for which an entry was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another entry has this name.
    Taken {
        /// The kind of algorithm in the table.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The name has a form that scenarios do not permit.
    NotAWord {
        /// The kind of algorithm in the table.
        kind: &'static str,
        /// The name.
        name: String,
    },
}

impl Display for Refused {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken { kind, name } => {
                write!(f, "there is already a {kind} called {name:?}; choose another name")
            }
            Self::NotAWord { kind, name } => write!(
                f,
                "{name:?} is no name for a {kind}; write a lower-case letter, then lower-case letters, digits, \"-\" \
                 and \"_\""
            ),
        }
    }
}

impl Error for Refused {}
