//! Errors of the program, with their exit status.

use core::fmt;

/// Exit status of a run that delivered everything.
pub const DELIVERED: u8 = 0;
/// Exit status of a run that failed or delivered less.
pub const FAILED: u8 = 1;
/// Exit status of a mistake in the arguments.
pub const MISTAKE: u8 = 2;
/// Exit status of a run that a signal interrupted before everything was delivered.
pub const INTERRUPTED: u8 = 130;

/// The end of the program before its result.
#[derive(Debug)]
pub enum Error {
    /// A mistake of the caller; one sentence.
    Input(String),
    /// The machine or the peer refused; one sentence.
    Refused(String),
    /// A signal stopped the program.
    Interrupted,
}

impl Error {
    /// The exit status.
    pub const fn status(&self) -> u8 {
        match self {
            Self::Input(_) => MISTAKE,
            Self::Refused(_) => FAILED,
            Self::Interrupted => INTERRUPTED,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(text) | Self::Refused(text) => f.write_str(text),
            Self::Interrupted => f.write_str("interrupted before everything was delivered"),
        }
    }
}
