//! Tables of algorithms to which a program can add its own entries before it reads scenarios.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::{PoisonError, RwLock};

/// An entry of a table.
pub trait Named: 'static {
    /// What the table lists, in messages.
    const KIND: &'static str;
    /// The name used in scenarios.
    fn name(&self) -> &'static str;
    /// Other names that scenarios may use.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }
}

/// A table with its fixed entries, and those that were added. Entries stay until the process ends.
#[derive(Debug)]
pub(crate) struct Registry<T: 'static> {
    fixed: &'static [T],
    added: RwLock<Vec<&'static T>>,
}

impl<T: Named> Registry<T> {
    pub(crate) const fn new(fixed: &'static [T]) -> Self {
        Self { fixed, added: RwLock::new(Vec::new()) }
    }

    /// All entries, the added ones last.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static T> + use<T> {
        let added = self.added.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.fixed.iter().chain(added)
    }

    /// The entry with this name or alias.
    pub(crate) fn find(&self, name: &str) -> Option<&'static T> {
        // Most names are of the table, which needs no lock.
        let fixed = self.fixed.iter().find(|entry| is_called(*entry, name));
        fixed.or_else(|| {
            let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
            added.iter().copied().find(|entry| is_called(*entry, name))
        })
    }

    /// Adds an entry.
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

/// Whether a name has the form of those in the tables.
fn is_word(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_part)
}

/// The reason why an entry was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another entry has this name.
    Taken {
        /// What the table lists.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The name is no word of scenarios.
    NotAWord {
        /// What the table lists.
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
