//! A side of a datagram relay: the client, the servers, or another proxy.

use crate::socks::wire::Target;
use std::io;

/// A datagram between the client and a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The server: the destination of the client's datagrams, and the source of those to the client.
    pub server: Target,
    /// The payload.
    pub payload: Vec<u8>,
}

/// A side of a datagram relay.
pub trait Side: Send {
    /// Waits for the next datagram from this side. Cancel-safe.
    ///
    /// # Errors
    /// If this side has ended or failed. The association then ends.
    fn receive(&mut self) -> impl Future<Output = io::Result<Datagram>> + Send;

    /// Sends a datagram to this side, or drops it if there is no room for it, as a network does.
    fn send(&mut self, datagram: Datagram);
}
