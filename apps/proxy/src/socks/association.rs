//! The client's side of UDP ASSOCIATE (RFC 1928 §7): a UDP socket on the address to which the client's TCP connection
//! leads. It accepts datagrams of this client only, and lives as long as the TCP connection.

use super::wire::{self, Target};
use crate::datagrams::{Datagram, Side, bind, receive_from};
use crate::stream::read_some;
use core::net::{IpAddr, SocketAddr};
use socket2::SockRef;
use std::io::{self, ErrorKind};
use tokio::net::{TcpStream, UdpSocket};

/// Opens a socket on the address to which a client's TCP connection leads, with a port that the kernel chooses.
///
/// # Errors
/// If the kernel has no descriptor or port left.
pub fn bind_beside(control: &TcpStream) -> io::Result<UdpSocket> {
    let mut local = control.local_addr()?;
    local.set_port(0);
    bind(local)
}

/// The client's side of an association.
pub struct ClientSide<'a> {
    control: &'a TcpStream,
    socket: UdpSocket,
    client: ClientAddress,
}

/// Source address of the client's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientAddress {
    /// The port of the first valid datagram from this address counts.
    Host(IpAddr),
    /// The address and port.
    Known(SocketAddr),
}

impl ClientAddress {
    /// Derives the address from that of the TCP connection, and from the request: a port in it counts if its address is
    /// the one of the connection. Behind an address translator, the client does not know its port.
    fn new(peer: SocketAddr, requested: &Target) -> Self {
        match requested {
            Target::Address(address)
                if address.ip().to_canonical() == peer.ip().to_canonical() && address.port() != 0 =>
            {
                // The peer's address has the scope of a link-local address.
                let mut known = peer;
                known.set_port(address.port());
                Self::Known(known)
            }
            _ => Self::Host(peer.ip()),
        }
    }

    /// True if a datagram from this source may be one of the client.
    fn permits(self, source: SocketAddr) -> bool {
        match self {
            Self::Host(ip) => source.ip() == ip,
            Self::Known(known) => (source.ip(), source.port()) == (known.ip(), known.port()),
        }
    }
}

impl<'a> ClientSide<'a> {
    /// Opens the socket for a client at `peer`. `requested` is the address in its request.
    ///
    /// # Errors
    /// If the kernel has no descriptor or port left.
    pub fn open(control: &'a TcpStream, peer: SocketAddr, requested: &Target) -> io::Result<Self> {
        let socket = bind_beside(control)?;
        Ok(Self { control, socket, client: ClientAddress::new(peer, requested) })
    }

    /// Returns the address to which the client must send its datagrams.
    ///
    /// # Errors
    /// If the kernel does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Receives a datagram; `None` if it is malformed, a fragment, or of another client.
    fn read(&mut self) -> Option<Datagram> {
        let (bytes, source) = receive_from(&self.socket).ok()?;
        if !self.client.permits(source) {
            return None;
        }
        let (server, data) = wire::datagram(&bytes)?;
        self.client = ClientAddress::Known(source);
        Some(Datagram { server, payload: bytes[data..].to_vec() })
    }
}

impl Side for ClientSide<'_> {
    async fn receive(&mut self) -> io::Result<Datagram> {
        let mut ignored = Vec::new();
        loop {
            tokio::select! {
                ready = self.socket.readable() => {
                    ready?;
                    if let Some(datagram) = self.read() {
                        return Ok(datagram);
                    }
                }
                // The client sends nothing more in this stream; its end ends the association.
                len = read_some(self.control, &mut ignored) => match len? {
                    0 => return Err(ErrorKind::UnexpectedEof.into()),
                    _ => ignored.clear(),
                },
            }
        }
    }

    fn send(&mut self, datagram: Datagram) {
        let ClientAddress::Known(client) = self.client else { return };
        let mut bytes = Vec::with_capacity(datagram.payload.len() + 32);
        wire::emit_datagram(&datagram.server, &datagram.payload, &mut bytes);
        // Ignore errors: UDP does not report whether a datagram arrives.
        drop(SockRef::from(&self.socket).send_to(&bytes, &client.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_associated_client_is_permitted() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let (peer, name) = (address("192.0.2.1:5000"), Target::Name("client".to_owned(), 7));
        for (requested, own, others) in [
            (Target::Address(address("0.0.0.0:0")), "192.0.2.1:9", "192.0.2.2:9"),
            (Target::Address(address("0.0.0.0:7")), "192.0.2.1:9", "192.0.2.2:7"),
            (Target::Address(address("192.0.2.1:7")), "192.0.2.1:7", "192.0.2.1:9"),
            (Target::Address(address("[::ffff:192.0.2.1]:7")), "192.0.2.1:7", "192.0.2.1:9"),
            // A client behind an address translator requests its private address.
            (Target::Address(address("10.0.0.2:7")), "192.0.2.1:9", "10.0.0.2:7"),
            (name, "192.0.2.1:9", "192.0.2.2:9"),
        ] {
            let client = ClientAddress::new(peer, &requested);
            assert!(client.permits(address(own)) && !client.permits(address(others)), "{requested}");
        }
    }
}
