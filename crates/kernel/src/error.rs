//! Why something could not be done, each with what helps.

use std::fmt;

/// Why something could not be done.
#[derive(Debug)]
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
    /// For what an operation of the system refused.
    pub(crate) fn system(what: &str, error: &dyn fmt::Display) -> Self {
        Self::Refused(format!("{what}: {error}"))
    }
}
