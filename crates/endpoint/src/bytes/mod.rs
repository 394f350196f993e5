//! The payload bytes of an [`Endpoint`], kept by a driver of real packets.
//!
//! Cores use lengths and offsets only. [`Bytes`] keeps the bytes and follows three outputs of an endpoint:
//!
//! - The payload of a packet to send contains the offset of its bytes ([`Bytes::fill`]).
//! - A [`Placement`] contains the offset for received bytes ([`Bytes::place`]).
//! - A [`Delivery`](crate::Delivery) contains the range of the bytes for the application.
//!
//! The application writes and reads with a [`Socket`]. Nothing here depends on a protocol.
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
    /// Written bytes that may still be sent or retransmitted.
    pub sent: SendBuffer,
    /// Received and unread bytes of a byte stream.
    pub stream: ReceiveBuffer,
    /// Received and unread fragments of messages.
    pub fragments: Fragments,
}

impl Bytes {
    /// Writes the bytes of a payload to send into `out`, as `Packet::emit_with` requires.
    ///
    /// # Panics
    ///
    /// If the bytes have not been written or are released: an error of the core.
    pub fn fill(&self, payload: Payload, out: &mut [u8]) {
        self.sent.fill(payload, out);
    }

    /// Stores a part of a packet's payload at the offset that the endpoint has assigned.
    ///
    /// # Panics
    ///
    /// If the payload is not of this packet, or bytes at these offsets have been read or stored already: an
    /// error of the core.
    pub fn place(&mut self, placement: Placement, packet: Buffer<'_>) {
        let bytes = packet.bytes(placement.payload);
        match placement.place {
            Place::Stream { offset } => self.stream.place(offset, bytes),
            Place::Fragment { key } => self.fragments.place(key, bytes),
        }
    }

    /// Forgets the bytes that `endpoint` will not send again.
    pub fn release(&mut self, endpoint: &dyn Endpoint) {
        self.sent.release(endpoint.released());
    }
}

#[cfg(test)]
mod tests;
