//! The bytes that a core does not have: what a driver of real packets keeps beside an [`Endpoint`].
//!
//! Cores deal in lengths and offsets. [`Bytes`] has what belongs to them, and follows the three things that an endpoint
//! says: the payload of a packet to send names the offset of its bytes ([`Bytes::fill`]), a [`Placement`] says where
//! received bytes belong ([`Bytes::place`]), and a [`Delivery`] which of them are the application's ([`Bytes::read`]).
//! Nothing here knows a protocol.
//!
//! [`Endpoint`]: crate::Endpoint

mod fragments;
mod receive;
mod ring;
mod send;

pub use fragments::Fragments;
pub use receive::ReceiveBuffer;
pub use send::SendBuffer;

use crate::endpoint::{Delivery, Endpoint, Place, Placement, Write};
use multipath::time::Time;
use wire::{Buffer, Payload};

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
    /// Writes to `endpoint` and keeps what it accepts, which is returned: of a byte stream a part, of messages all or
    /// nothing. `how` says all but the length.
    pub fn write(&mut self, endpoint: &mut dyn Endpoint, now: Time, bytes: &[u8], how: Write) -> usize {
        let accepted = endpoint.write(now, Write { len: bytes.len() as u64, ..how }) as usize;
        self.sent.write(&bytes[..accepted]);
        accepted
    }

    /// Writes the bytes of a payload that `endpoint` sends into `out`: what `Packet::emit_with` asks for.
    ///
    /// # Panics
    /// If the bytes have not been written or are released: a mistake of the core.
    pub fn fill(&self, payload: Payload, out: &mut [u8]) {
        self.sent.fill(payload, out);
    }

    /// Takes every placement of the packet just handled from `endpoint`; `packet` has the payloads.
    ///
    /// # Panics
    /// As [`place`](Self::place).
    pub fn place_all(&mut self, endpoint: &mut dyn Endpoint, packet: Buffer<'_>) {
        while let Some(placement) = endpoint.poll_placement() {
            self.place(placement, packet);
        }
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

    /// Reads up to `max` bytes of the stream, or the next message however long, from `endpoint` and appends them to `out`.
    pub fn read(
        &mut self,
        endpoint: &mut dyn Endpoint,
        now: Time,
        max: u64,
        out: &mut Vec<u8>,
    ) -> Option<Delivery> {
        let delivery = endpoint.read(now, max)?;
        let runs = endpoint.fragments();
        let before = out.len();
        if runs.is_empty() {
            self.stream.read(delivery.offset, delivery.len, out);
        } else {
            self.fragments.collect(runs, out);
        }
        debug_assert_eq!((out.len() - before) as u64, delivery.len, "{delivery:?} of {runs:?}");
        Some(delivery)
    }

    /// Forgets what `endpoint` will not send again.
    pub fn release(&mut self, endpoint: &dyn Endpoint) {
        self.sent.release(endpoint.released());
    }
}

#[cfg(test)]
mod tests;
