//! What is under way of address reconfiguration (RFC 5061), in both directions.

use crate::ends::Address;
use core::net::IpAddr;
use multipath::time::Time;
use std::collections::VecDeque;
use wire::sctp::AsconfAck;
use wire::seq::Serial;

/// A change of this end's addresses that the peer must learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add(Address),
    Delete(IpAddr),
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub serial: Serial,
    pub change: Change,
    /// The path that carried it.
    pub at: usize,
    pub due: Time,
}

/// What is under way in both directions.
#[derive(Debug)]
pub(super) struct Reconfiguration {
    /// Serial number of the next request.
    pub next: Serial,
    pub waiting: VecDeque<Change>,
    pub pending: Option<Pending>,
    /// Serial number of the peer's next request.
    pub expected: Serial,
    /// The answer to its last one, in case it did not arrive.
    pub answer: Option<AsconfAck>,
}

impl Reconfiguration {
    /// Serial numbers start at the initial TSNs (RFC 5061 §4.1.1).
    pub const fn new(local: Serial, peer: Serial) -> Self {
        Self { next: local, waiting: VecDeque::new(), pending: None, expected: peer, answer: None }
    }

    /// The changes that the peer has not confirmed, oldest first.
    pub fn unfinished(&self) -> VecDeque<Change> {
        self.pending.map(|pending| pending.change).into_iter().chain(self.waiting.iter().copied()).collect()
    }

    /// When a request is to be repeated (T4).
    pub fn due(&self) -> Time {
        self.pending.map_or(Time::MAX, |pending| pending.due)
    }
}
