//! Errors of opening an emulator.

use core::fmt;
use std::io;
use std::path::PathBuf;

/// An error that prevents the creation of a network.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// A sentence: no link end or flow has the name that the capture requires.
    Unknown(String),
    /// The file of the capture cannot be written.
    Capture(PathBuf, io::Error),
    /// The operation that the system refuses, and the reason.
    System(String, io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(sentence) => f.write_str(sentence),
            Self::Capture(file, reason) => write!(f, "cannot write {}: {reason}", file.display()),
            Self::System(what, reason) => write!(f, "{what}: {reason}"),
        }
    }
}

impl core::error::Error for OpenError {}

impl From<(String, io::Error)> for OpenError {
    fn from((what, error): (String, io::Error)) -> Self {
        Self::System(what, error)
    }
}
