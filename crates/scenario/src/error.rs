//! A mistake in the input: what was wrong, where, and what to write instead.

use core::fmt;

/// A mistake in a scenario (or in an override of one of its keys): one sentence that names the place and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// The file, as it was named by the caller; empty if the mistake is in none.
    pub file: String,
    /// The line, counted from 1, unless the mistake is in an override or concerns the file as a whole.
    pub line: Option<usize>,
    /// What is wrong and what to write instead, without the place.
    pub message: String,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.is_empty() {
            return f.write_str(&self.message);
        }
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for InputError {}

/// Where a value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// On a line of the file, counted from 1.
    Line(usize),
    /// In the override with this index.
    Set(usize),
    /// Nowhere: it is a default, or concerns the file as a whole.
    Nowhere,
}

/// A mistake before the names of file and overrides are known.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub origin: Origin,
    pub message: String,
}

impl Fault {
    pub fn new(origin: Origin, message: impl Into<String>) -> Self {
        Self { origin, message: message.into() }
    }

    /// The error as the caller sees it.
    pub fn located(self, file: &str, overrides: &[(String, String)]) -> InputError {
        let file = file.to_owned();
        match self.origin {
            Origin::Line(line) => InputError { file, line: Some(line), message: self.message },
            Origin::Nowhere => InputError { file, line: None, message: self.message },
            Origin::Set(index) => {
                let (key, value) = &overrides[index];
                let given = shortened(&format!("{key}={value}"));
                InputError { file, line: None, message: format!("--set {given}: {}", self.message) }
            }
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Set(_) => write!(f, "another --set"),
            Self::Nowhere => write!(f, "a default"),
        }
    }
}

/// Text of the user in quotes, on one line whatever it contains, and not longer than a line bears.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", shortened(text))
}

/// Text of the user without line breaks and cut where it is too long for a message.
pub(super) fn shortened(text: &str) -> String {
    cut(text, 60)
}

/// A sentence that may contain text of the user, without line breaks.
pub(super) fn one_line(text: &str) -> String {
    cut(text, 300)
}

fn cut(text: &str, longest: usize) -> String {
    let mut shown: String = text.chars().take(longest).flat_map(escaped).collect();
    if text.chars().nth(longest).is_some() {
        shown.push('…');
    }
    shown
}

fn escaped(c: char) -> impl Iterator<Item = char> {
    // Quotes stay as they are: messages show what the user typed, not what Rust would type.
    let keep = !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    let escape = (!keep).then(|| c.escape_default());
    escape.into_iter().flatten().chain(keep.then_some(c))
}
