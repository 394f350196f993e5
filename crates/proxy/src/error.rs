//! Errors, each with its remedy.

use std::fmt;

/// Why something could not be done.
#[derive(Debug)]
pub enum Error {
    /// The caller's mistake.
    Input(String),
    /// The machine lacks something or refuses.
    Refused(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Input(text) | Self::Refused(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Error {}
