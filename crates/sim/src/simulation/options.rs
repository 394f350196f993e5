//! Options of a run in addition to its scenario, and its errors.

use crate::host::FlowError;
use crate::report::capture;
use anabranch_base::time::Time;
use anabranch_netem::network::BuildError;
use anabranch_wire::CheckError;
use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Options of a run. Only the seed changes the digest.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// A seed other than the scenario's.
    pub seed: Option<u64>,
    /// Write packets to a file.
    pub pcap: Option<capture::Settings>,
    /// Write windows, buffers and queues over time into this folder, as CSV.
    pub trace: Option<PathBuf>,
    /// Write into the trace all changes after every event, instead of regular samples. Disables lookahead.
    pub trace_changes: bool,
    /// Process all events in order of time, without lookahead: slower, to follow a run step by step. Captures
    /// enable this.
    pub in_order: bool,
    /// Encode every packet as it is sent, parse the bytes and compare.
    pub check_wire: bool,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time.
    pub now: Time,
    /// Time at which the run ends.
    pub end: Time,
    /// Number of processed events.
    pub events: u64,
}

/// The reason why a run failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The links and flows do not form a network.
    Network(BuildError),
    /// A flow cannot be set up.
    Flow(FlowError),
    /// No node, link or flow has the name that a capture requires; contains the message.
    Unknown(String),
    /// A file cannot be written.
    File {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The capture cannot be written to the end.
    Capture {
        /// The reason.
        error: io::Error,
    },
    /// A packet and its encoding differ: a bug in Anabranch.
    Wire {
        /// Time at which the packet was sent.
        at: Time,
        /// The flow that sent the packet.
        flow: String,
        /// The difference.
        error: CheckError,
    },
    /// The host, which uses a packet's contents only, would assign it to another connection: a bug in
    /// Anabranch.
    OtherConnection {
        /// Time at which the packet arrived.
        at: Time,
        /// The flow that received the packet.
        flow: String,
    },
    /// The caller stopped the run.
    Interrupted {
        /// Simulated time at which the run was stopped.
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
