//! Errors, whose texts contain a remedy.

use std::fmt;

/// Reason why an operation failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An argument of the caller is invalid.
    Input(String),
    /// This machine does not meet a requirement of a congestion control, for example a kernel option or a privilege.
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
