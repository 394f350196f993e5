//! Many documents of one layout as columns: for each key one vector of values, in the order of the documents.
//!
//! The layout is a list of keys with their types in Rust, as [`Field`](super::Field) has them, so the decoder follows
//! from the types of results. It accepts the documents that these types describe, and no others.

mod column;
mod decode;
mod layout;
#[cfg(test)]
mod tests;
mod texts;

pub use column::{Column, Key, List, Part, Table, Values};
pub use texts::Texts;

use layout::Layout;

/// Documents as columns.
#[derive(Debug)]
pub struct Documents {
    root: Part,
}

impl Documents {
    /// No documents, whose keys have these names and types; the third value is true for a key that may be absent.
    ///
    /// # Errors
    ///
    /// If a type is not known.
    pub fn new(keys: &[(String, String, bool)]) -> Result<Self, String> {
        Layout::of_results()
            .part(keys.iter().map(|(n, k, a)| (n.as_str(), k.as_str(), *a)))
            .map(|root| Self { root })
    }

    /// Adds a document.
    ///
    /// # Errors
    ///
    /// If the text is not JSON or has another layout. The columns then remain as they were.
    pub fn add(&mut self, json: &str) -> serde_json::Result<()> {
        let rows = self.root.rows;
        let mut json = serde_json::Deserializer::from_str(json);
        let outcome = self.root.decode(&mut json).and_then(|()| json.end());
        if outcome.is_err() {
            self.root.truncate(rows);
        }
        outcome
    }

    /// Returns all columns and begins empty ones.
    pub fn take(&mut self) -> Part {
        let empty = self.root.empty();
        std::mem::replace(&mut self.root, empty)
    }
}
