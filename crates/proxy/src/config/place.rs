//! Where in a file something stands.

use crate::error::Error;
use core::ops::Range;

/// The text of a file, and what the file is called.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    /// What it says.
    pub text: &'a str,
    /// Its name.
    pub file: &'a str,
}

impl Text<'_> {
    /// A mistake at a place, as a sentence.
    pub fn mistake(&self, place: Option<Range<usize>>, said: &str) -> Error {
        let said = said.lines().collect::<Vec<_>>().join(", ");
        let Some(place) = place else { return Error::Input(format!("{}: {said}", self.file)) };
        let before = self.text.get(..place.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Error::Input(format!("{}:{line}: {said}", self.file))
    }
}
