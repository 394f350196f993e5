//! Sockets on the machines' own network, which carry the packets of tunnels.

use anabranch_scenario::model::{Tunnel, TunnelKind};
use anabranch_wire::gre::UDP_PORT;
use anabranch_wire::ip::protocol;
use core::net::{IpAddr, SocketAddr};
use rustix::io::Errno;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Size of the receive buffer: 20 ms at 1 Gbit/s, with the kernel's own overhead.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// Maximum number of errors that are skipped in front of a packet.
const MAX_ERRORS: usize = 16;

/// Longest packet, bytes.
pub(super) const MAX_PACKET_BYTES: usize = 65_535;

/// Kind and addresses of a socket, this machine's first. Tunnels with the same ones share a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub kind: TunnelKind,
    pub own: IpAddr,
    pub peer: IpAddr,
}

impl Addresses {
    /// The addresses of a tunnel at this end of its link.
    pub const fn of(tunnel: &Tunnel, end: usize) -> Self {
        let Tunnel { kind, local, remote, .. } = *tunnel;
        let (own, peer) = if end == 0 { (local, remote) } else { (remote, local) };
        Self { kind, own, peer }
    }
}

/// The result of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Whole,
    TooLong,
    Lost,
}

/// A socket between two machines. It accepts packets of the other machine only, and sends unfragmented packets.
#[derive(Debug)]
pub(super) struct Outer {
    socket: Socket,
    /// Received packets begin with an IPv4 header.
    has_header: bool,
}

impl Outer {
    /// Opens a socket.
    ///
    /// # Errors
    ///
    /// If the address does not belong to this machine, the port is taken, there is no route, or the caller lacks the right
    /// to raw sockets.
    pub fn open(Addresses { kind, own, peer }: Addresses) -> io::Result<Self> {
        let (kind, port, number) = match kind {
            TunnelKind::Gre => (Type::RAW, 0, protocol::GRE),
            TunnelKind::Udp => (Type::DGRAM, UDP_PORT, protocol::UDP),
        };
        let [own, peer] = [own, peer].map(|address| SocketAddr::new(address, port));
        let socket = Socket::new(Domain::for_address(own), kind, Some(Protocol::from(i32::from(number))))?;
        if own.is_ipv4() {
            // Packets longer than the path's MTU are lost; the kernel must not remember errors of others about it.
            set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?;
        } else {
            set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?;
        }
        // Without the right to exceed it, the administrator's maximum applies.
        set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES)
            .or_else(|_| set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES))?;
        socket.bind(&own.into())?;
        socket.connect(&peer.into())?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, has_header: kind == Type::RAW && own.is_ipv4() })
    }

    /// The descriptor that becomes readable when a packet has arrived.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a packet, from its GRE header on.
    pub fn send(&self, packet: &[u8]) -> Sent {
        // The first attempt fails if an ICMP error about an earlier packet has arrived, and removes that error.
        for _ in 0..2 {
            match rustix::io::write(&self.socket, packet) {
                Ok(_) => return Sent::Whole,
                Err(Errno::MSGSIZE) => return Sent::TooLong,
                Err(Errno::AGAIN) => return Sent::Lost,
                Err(_) => {}
            }
        }
        // The outer network may be down for a moment: the contact decides when that is too long.
        Sent::Lost
    }

    /// The next packet, from its GRE header on; `None` if there is none.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let len = self.read(buffer)?;
        let packet = &buffer[..len];
        if !self.has_header {
            return Some(packet);
        }
        let header = packet.first().map_or(0, |first| usize::from(first & 15) * 4);
        Some(packet.get(header..).unwrap_or_default())
    }

    /// Reads the next packet and returns its length.
    fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        for _ in 0..MAX_ERRORS {
            match rustix::io::read(&self.socket, &mut *buffer) {
                Ok(len) => return Some(len),
                Err(Errno::AGAIN) => return None,
                // An ICMP error about an earlier packet: reading has removed it from the socket.
                Err(_) => {}
            }
        }
        None
    }
}
