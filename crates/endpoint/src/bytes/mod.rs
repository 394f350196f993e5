//! The bytes that a core does not have: what a driver of real packets keeps beside an [`Endpoint`].
//!
//! Cores deal in lengths and offsets. [`Bytes`] has what belongs to them, and follows the three things that an endpoint
//! says: the payload of a packet to send names the offset of its bytes ([`Bytes::fill`]), a [`Placement`] says where
//! received bytes belong ([`Bytes::place`]), and a [`Delivery`](crate::Delivery) which of them are the application's, who
//! writes and reads with a [`Socket`].
//! Nothing here knows a protocol.
//!
//! [`Endpoint`]: crate::Endpoint

mod fragments;
mod receive;
mod ring;
mod send;
mod socket;

pub use fragments::Fragments;
pub use receive::ReceiveBuffer;
pub use send::SendBuffer;
pub use socket::Socket;

use crate::endpoint::{Endpoint, Place, Placement};
use anabranch_wire::{Buffer, Payload};

/// All bytes of one end of a connection or association.
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    /// Written, and perhaps to be sent (again).
    pub sent: SendBuffer,
    /// Received of a byte stream, and not yet read.
    pub stream: ReceiveBuffer,
    /// Received of messages, and not yet read.
    pub fragments: Fragments,
}

impl Bytes {
    /// Writes the bytes of a payload that `endpoint` sends into `out`: what `Packet::emit_with` asks for.
    ///
    /// # Panics
    /// If the bytes have not been written or are released: a mistake of the core.
    pub fn fill(&self, payload: Payload, out: &mut [u8]) {
        self.sent.fill(payload, out);
    }

    /// Keeps a part of a packet's payload where it belongs.
    ///
    /// # Panics
    /// If the payload is not of this packet, or its place has been read or taken: a mistake of the core.
    pub fn place(&mut self, placement: Placement, packet: Buffer<'_>) {
        let bytes = packet.bytes(placement.payload);
        match placement.place {
            Place::Stream { offset } => self.stream.place(offset, bytes),
            Place::Fragment { key } => self.fragments.place(key, bytes),
        }
    }

    /// Forgets what `endpoint` will not send again.
    pub fn release(&mut self, endpoint: &dyn Endpoint) {
        self.sent.release(endpoint.released());
    }
}

#[cfg(test)]
mod tests;
