//! Errors, each with a remedy.

use std::fmt;

/// The reason of a failure.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The caller's mistake.
    Input(String),
    /// This machine lacks something.
    Machine(String),
    /// The kernel refused.
    Refused(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Input(text) | Self::Machine(text) | Self::Refused(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Error {}

impl Error {
    /// An error of a system call.
    pub(crate) fn system(what: &str, error: &dyn fmt::Display) -> Self {
        Self::Refused(format!("{what}: {error}"))
    }
}
