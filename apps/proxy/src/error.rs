//! Errors of the program. The text of an error contains its remedy.

use std::fmt;

/// Reason why an operation failed.
#[derive(Debug)]
pub enum Error {
    /// The user's input is invalid.
    Input(String),
    /// The machine refuses the operation or lacks a resource.
    Refused(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Input(text) | Self::Refused(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Error {}
