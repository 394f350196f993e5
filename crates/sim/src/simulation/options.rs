//! What can be asked of a run beside its scenario, and what can go wrong.

use crate::host::FlowError;
use crate::report::capture;
use anabranch_base::time::Time;
use anabranch_netem::network::BuildError;
use anabranch_wire::CheckError;
use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What can be asked of a run. None of it changes the digest but the seed.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// A seed other than the scenario's.
    pub seed: Option<u64>,
    /// Write packets to a file.
    pub pcap: Option<capture::Settings>,
    /// Write windows, buffers and queues over time into this folder, as CSV.
    pub trace: Option<PathBuf>,
    /// Write into the trace whatever has changed after every event, not only what a look now and then finds. Everything is
    /// done in the order of time then.
    pub trace_changes: bool,
    /// Do everything in the order of time, nothing ahead of it: slower, to follow a run step by step. A capture needs it
    /// and has it without asking.
    pub in_order: bool,
    /// Encode every packet as it is sent, parse the bytes and compare.
    pub check_wire: bool,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time.
    pub now: Time,
    /// When the run ends.
    pub end: Time,
    /// Events dealt with so far.
    pub events: u64,
}

/// Why a run failed.
#[derive(Debug)]
pub enum RunError {
    /// The links and flows make no network.
    Network(BuildError),
    /// A flow cannot be set up.
    Flow(FlowError),
    /// There is nothing of that name to capture; a sentence.
    Unknown(String),
    /// A file cannot be written.
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The capture cannot be written to the end.
    Capture {
        /// Why.
        error: io::Error,
    },
    /// A packet and its bytes disagree: a mistake of ours.
    Wire {
        /// When it was sent.
        at: Time,
        /// By which flow.
        flow: String,
        /// How they disagree.
        error: CheckError,
    },
    /// By what is in a packet, its host would hand it to another connection: a mistake of ours.
    OtherConnection {
        /// When it arrived.
        at: Time,
        /// At which flow.
        flow: String,
    },
    /// The caller stopped it.
    Interrupted {
        /// When, in simulated time.
        at: Time,
    },
}

impl RunError {
    /// A file cannot be written.
    pub fn file(path: &Path, error: io::Error) -> Self {
        Self::File { path: path.to_owned(), error }
    }
}

impl From<BuildError> for RunError {
    fn from(error: BuildError) -> Self {
        Self::Network(error)
    }
}

impl From<FlowError> for RunError {
    fn from(error: FlowError) -> Self {
        Self::Flow(error)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::Flow(error) => error.fmt(f),
            Self::File { path, error } => write!(f, "cannot write \"{}\": {error}", path.display()),
            Self::Unknown(message) => f.write_str(message),
            Self::Capture { error } => write!(f, "cannot write the capture: {error}"),
            Self::Wire { at, flow, error } => write!(f, "flow \"{flow}\" at {at:?}: {error}"),
            Self::OtherConnection { at, flow } => {
                write!(f, "flow \"{flow}\" at {at:?}: a packet belongs to another connection of the host")
            }
            Self::Interrupted { at } => write!(f, "stopped at {at:?}"),
        }
    }
}

impl core::error::Error for RunError {}
