//! Pending address reconfiguration (RFC 5061), in both directions.

use super::requests::{Pending, Requests};
use anabranch_endpoint::ends::Address;
use anabranch_wire::sctp::AsconfAck;
use anabranch_wire::seq::Serial;
use core::net::IpAddr;
use std::collections::VecDeque;

/// A change of this end's addresses that the peer must be informed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressChange {
    Add(Address),
    Delete(IpAddr),
}

/// Pending requests in both directions.
#[derive(Debug)]
pub(super) struct AddressChanges {
    pub requests: Requests<AddressChange>,
    /// The answer to the peer's last one, in case it did not arrive.
    pub answer: Option<AsconfAck>,
}

impl AddressChanges {
    pub const fn new(local: Serial, peer: Serial) -> Self {
        Self { requests: Requests::new(local, peer), answer: None }
    }

    /// The changes that the peer has not confirmed, oldest first.
    pub fn unfinished(&self) -> VecDeque<AddressChange> {
        let pending = self.requests.pending.iter().map(|Pending { change, .. }| *change);
        pending.chain(self.requests.waiting.iter().copied()).collect()
    }
}
