//! Errors, each with a remedy.

use std::fmt;

/// A failure, by its cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An invalid argument of the caller.
    Input(String),
    /// This machine lacks something that a control needs, for example a kernel option or a right.
    Machine(String),
    /// The kernel refused an operation.
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
    /// Creates an error from a failed system call.
    pub(crate) fn system(what: &str, error: &dyn fmt::Display) -> Self {
        Self::Refused(format!("{what}: {error}"))
    }
}
