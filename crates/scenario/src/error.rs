//! Errors in the input, with file, line and remedy.

pub(super) use anabranch_settings::text::{is_hidden, one_line, quoted, shortened};
use core::fmt;

/// An error in a scenario (or in an override of one of its keys): one sentence with file, line and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputError {
    /// The name of the file, as given by the caller; empty if the error is in no file.
    pub file: String,
    /// The line, counted from 1; `None` if the error is in an override or concerns the file as a whole.
    pub line: Option<usize>,
    /// The column, in characters counted from 1, if the line is known.
    pub column: Option<usize>,
    /// The error and the remedy, without file and line.
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

impl InputError {
    /// An error that is in no file.
    pub const fn without_place(message: String) -> Self {
        Self { file: String::new(), line: None, column: None, message }
    }
}

/// The position of a value: a line of the file, an override, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Line of the file, counted from 1, and number of bytes before the error in the line.
    Line(usize, usize),
    /// Index of the override.
    Set(usize),
    /// A default, or an error that concerns the file as a whole.
    Nowhere,
}

/// An error without the names of file and overrides.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub origin: Origin,
    pub message: String,
}

impl Fault {
    pub fn new(origin: Origin, message: impl Into<String>) -> Self {
        Self { origin, message: message.into() }
    }

    /// Adds the names of the file and the overrides to the error.
    pub fn located(self, (file, text): (&str, &str), overrides: &[(String, String)]) -> InputError {
        let file = file.to_owned();
        match self.origin {
            Origin::Line(line, bytes) => {
                let before = text.split('\n').nth(line - 1).and_then(|text| text.get(..bytes));
                let column = before.map(|before| before.chars().count() + 1);
                InputError { file, line: Some(line), column, message: self.message }
            }
            Origin::Nowhere => InputError { file, line: None, column: None, message: self.message },
            Origin::Set(index) => {
                let (key, value) = &overrides[index];
                let given = shortened(&format!("{key}={value}"));
                let message = format!("--set {given}: {}", self.message);
                InputError { file, line: None, column: None, message }
            }
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line, _) => write!(f, "line {line}"),
            Self::Set(_) => write!(f, "another --set"),
            Self::Nowhere => write!(f, "a default"),
        }
    }
}
