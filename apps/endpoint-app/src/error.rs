//! Errors of the program and its exit statuses.

use core::fmt;

/// Exit status if all data was delivered.
pub const DELIVERED: u8 = 0;
/// Exit status if the program failed or did not deliver all data.
pub const FAILED: u8 = 1;
/// Exit status after a mistake in the arguments.
pub const MISTAKE: u8 = 2;
/// Exit status if a signal interrupted the program before all data was delivered.
pub const INTERRUPTED: u8 = 130;

/// Reason why the program ended without its result.
#[derive(Debug)]
pub enum Error {
    /// The arguments contain a mistake; one sentence.
    Input(String),
    /// The machine or the peer refused an operation; one sentence.
    Refused(String),
    /// A signal stopped the program.
    Interrupted,
}

impl Error {
    /// Returns the exit status.
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
