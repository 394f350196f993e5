//! Errors of reading a recording.

use core::fmt;
use std::io;

/// The reason why a recording cannot be replayed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file does not begin like a recording.
    NoRecording,
    /// The recording has a format that this version does not know.
    Format {
        /// The version of the recording's format.
        found: u8,
        /// The version that this program reads.
        known: u8,
    },
    /// The recording ends before its last record.
    Truncated {
        /// Number of sent packets before its end, all equal to those of the replay.
        packets: u64,
    },
    /// A record does not have its form, or is impossible after the records before it.
    Damaged {
        /// Bytes of the file until the end of this record.
        position: u64,
    },
    /// The scenario of the recording is invalid; one sentence.
    Scenario(String),
    /// The file cannot be read.
    Read(io::Error),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecording => f.write_str("is not a recording; make one with --record"),
            Self::Format { found, known } => {
                write!(f, "has version {found} of the format, but this program reads version {known}; ")?;
                f.write_str("use the version of the program that recorded it")
            }
            Self::Truncated { packets } => {
                write!(f, "is truncated: it ends after {packets} sent packets, which are equal in the replay")
            }
            Self::Damaged { position } => {
                write!(f, "is damaged: the record that ends at byte {position} is invalid")
            }
            Self::Scenario(sentence) => write!(f, "contains an invalid scenario: {sentence}"),
            Self::Read(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl core::error::Error for ReplayError {}
