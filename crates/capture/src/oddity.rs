//! Events of a connection that are worth a line: fall-back, resets, failed mappings, changes of priority.

use serde::Serialize;

/// Maximum number of oddities kept for a connection.
const MAX_ODDITIES: usize = 64;

/// The kind of an oddity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The connection or subflow continues as plain TCP.
    FallBack,
    /// `MP_FAIL`: a mapping's checksum was wrong.
    Fail,
    /// A reset, with the reason if the option contains one.
    Reset,
    /// `MP_FASTCLOSE` or SCTP's `ABORT`.
    Abort,
    /// `MP_PRIO`: a subflow becomes a backup or regular.
    Priority,
    /// `REMOVE_ADDR`, or an address deleted by SCTP's `ASCONF`.
    AddressRemoved,
    /// `ADD_ADDR`, or an address added by SCTP's `ASCONF`.
    AddressAdded,
    /// SYNs or INITs without an answer.
    NoAnswer,
    /// The answer to the SYN was a reset.
    Refused,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Oddity {
    /// Time since the beginning of the capture, seconds.
    pub at_s: f64,
    /// The kind.
    pub kind: Kind,
    /// The affected subflow or path, by its number in the connection.
    pub subflow: Option<usize>,
    /// Description: a sentence without its full stop.
    pub text: String,
}

/// An oddity found during the reading of the capture.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    pub at_ns: u64,
    pub kind: Kind,
    pub subflow: u32,
    pub text: String,
}

/// The first oddities of a connection, and the number of further ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oddities {
    pub list: Vec<Noted>,
    pub left_out: u64,
}

impl Oddities {
    /// Adds an oddity, or counts it if the list is full.
    pub fn add(&mut self, noted: Noted) {
        if self.list.len() < MAX_ODDITIES {
            self.list.push(noted);
        } else {
            self.left_out += 1;
        }
    }
}

/// The meaning of a reason of `MP_TCPRST` (RFC 8684 §3.6).
pub(crate) const fn reset_reason(code: u8) -> &'static str {
    match code {
        0 => "unspecified error",
        1 => "error of Multipath TCP",
        2 => "lack of resources",
        3 => "administratively prohibited",
        4 => "too much outstanding data",
        5 => "unacceptable performance",
        6 => "middlebox interference",
        _ => "unassigned reason",
    }
}
