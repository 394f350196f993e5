//! Pending address reconfiguration (RFC 5061), in both directions.

use crate::requests::{Pending, Requests};
use anabranch_endpoint::ends::Address;
use anabranch_wire::sctp::AsconfAck;
use anabranch_wire::seq::Serial;
use core::net::IpAddr;
use std::collections::VecDeque;

/// Change of a local address that must be reported to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressChange {
    Add(Address),
    Delete(IpAddr),
}

/// Pending requests in both directions.
#[derive(Debug)]
pub(crate) struct AddressChanges {
    pub requests: Requests<AddressChange>,
    /// Response to the peer's last request; sent again if the request is received again.
    pub answer: Option<AsconfAck>,
}

impl AddressChanges {
    pub const fn new(local: Serial, peer: Serial) -> Self {
        Self { requests: Requests::new(local, peer), answer: None }
    }

    /// Changes that the peer has not confirmed, oldest first.
    pub fn unfinished(&self) -> VecDeque<AddressChange> {
        let pending = self.requests.pending.iter().map(|Pending { change, .. }| *change);
        pending.chain(self.requests.waiting.iter().copied()).collect()
    }
}
