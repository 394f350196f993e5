//! SCTP in the UDP datagrams of a socket (RFC 6951).

use crate::device::{Attachment, Device, Fill, unless_lost};
use anabranch_wire::sctp::encapsulation::Ports;
use anabranch_wire::{Body, Ecn, Packet, sctp};
use core::net::SocketAddr;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

/// Longest datagram, bytes.
const MAX_DATAGRAM_BYTES: usize = 65_535;
/// Size of the socket's receive buffer. The kernel's default holds fewer packets than one window of a fast
/// path.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// A UDP socket on one address that carries SCTP packets. It needs neither root nor SCTP in the kernel.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    local: SocketAddr,
}

impl Udp {
    /// A socket on this address and port; port 0 means any free one.
    ///
    /// # Errors
    ///
    /// If the address does not belong to this machine, or the port is taken.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(local)?;
        socket.set_nonblocking(true)?;
        // The kernel limits the size to the administrator's maximum.
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, RECEIVE_BUFFER_BYTES)?;
        let local = socket.local_addr()?;
        Ok(Self { socket, local })
    }

    /// The address and the port.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }
}

impl Device for Udp {
    fn name(&self) -> String {
        format!("udp {}", self.local)
    }

    fn attachment(&self) -> Attachment {
        Attachment::Address(self.local.ip())
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Packet>> {
        loop {
            bytes.resize(MAX_DATAGRAM_BYTES, 0);
            let Some((len, from)) = unless_lost(self.socket.recv_from(bytes))? else { return Ok(None) };
            bytes.truncate(len);
            if let Ok(mut packet) = sctp::Packet::parse(bytes) {
                packet.udp = Some(Ports { source: from.port(), destination: self.local.port() });
                let (source, destination) = (from.ip(), self.local.ip());
                return Ok(Some(Packet { source, destination, ecn: Ecn::NotEct, body: Body::Sctp(packet) }));
            }
        }
    }

    fn send(&mut self, packet: &Packet, fill: Fill<'_>, bytes: &mut Vec<u8>) -> io::Result<()> {
        // The socket carries only SCTP.
        let Body::Sctp(body @ sctp::Packet { udp: Some(ports), .. }) = &packet.body else { return Ok(()) };
        bytes.clear();
        body.emit_with(bytes, fill);
        match self.socket.send_to(bytes, (packet.destination, ports.destination)) {
            // The machine has lost the socket's address, perhaps for a moment.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            sent => unless_lost(sent).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    #[test]
    fn packet_arrives_with_its_source_port() {
        let [mut a, mut b] = [(); 2].map(|()| Udp::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket"));
        let chunks = sctp::Chunk::CookieAck.into();
        let ports = Ports { source: a.local().port(), destination: b.local().port() };
        let body = sctp::Packet {
            source_port: 1,
            destination_port: 2,
            verification_tag: 3,
            chunks,
            udp: Some(ports),
            may_fragment: false,
            zero_checksum: false,
        };
        let localhost = Ipv4Addr::LOCALHOST.into();
        let packet =
            Packet { source: localhost, destination: localhost, ecn: Ecn::NotEct, body: Body::Sctp(body) };
        let mut bytes = Vec::new();
        a.send(&packet, &mut |_, _| unreachable!("the packet has no payload"), &mut bytes).expect("sent");
        assert_eq!(b.receive(&mut bytes).expect("received"), Some(packet));
        assert_eq!(b.receive(&mut bytes).expect("no error"), None);
        assert_eq!(a.receive(&mut bytes).expect("nothing"), None);
    }
}
