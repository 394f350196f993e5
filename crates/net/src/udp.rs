//! SCTP in the UDP datagrams of a socket (RFC 6951).

use crate::device::{Attachment, Device, Fill, unless_lost};
use crate::offload::MAX_PACKET_BYTES;
use anabranch_wire::sctp::encapsulation::Ports;
use anabranch_wire::{Body, Ecn, Packet, sctp};
use core::net::SocketAddr;
use core::ops::Range;
use nix::errno::Errno;
use nix::sys::socket::sockopt::UdpGroSegment;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Size of the socket's buffers. The kernel's default holds fewer packets than one window of a fast path.
const BUFFER_BYTES: usize = 4 << 20;
/// Maximum number of datagrams that the kernel accepts at once (`UDP_MAX_SEGMENTS` before Linux 6.9).
const MAX_DATAGRAMS: usize = 64;
/// Maximum number of their bytes: a packet without the headers of IPv6 and UDP.
const MAX_BYTES: usize = MAX_PACKET_BYTES - 48;

/// A UDP socket on one address that carries SCTP packets. It needs neither root nor SCTP in the kernel.
///
/// Consecutive packets for one destination pass to the kernel at once, and from it, where the kernel supports this
/// (`UDP_SEGMENT`, `UDP_GRO`).
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    local: SocketAddr,
    outgoing: Outgoing,
    incoming: Incoming,
}

/// Datagrams of one length, of which the last may be shorter, for one destination.
#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    destination: SocketAddr,
    /// Length of the first datagram.
    datagram: usize,
    count: usize,
    /// Maximum number: 1 if a network card or the kernel has refused more.
    max: usize,
}

/// Datagrams of one length, of which the last may be shorter, from one source.
#[derive(Debug)]
struct Incoming {
    bytes: Vec<u8>,
    source: SocketAddr,
    /// Length of a datagram.
    datagram: usize,
    /// The bytes that have not been processed.
    left: Range<usize>,
}

impl Udp {
    /// A socket on this address and port; port 0 means any free one.
    ///
    /// # Errors
    ///
    /// If the address does not belong to this machine, or the port is taken.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        Self::of(UdpSocket::bind(local)?)
    }

    /// Carries SCTP over this socket, which is bound to an address.
    ///
    /// # Errors
    ///
    /// If the kernel refuses a setting.
    pub fn of(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // The kernel limits the size to the administrator's maximum.
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES)?;
        // Without this option, which is of Linux 5.0, each datagram arrives alone.
        let _ = setsockopt(&socket, UdpGroSegment, &true);
        let local = socket.local_addr()?;
        let outgoing =
            Outgoing { bytes: Vec::new(), destination: local, datagram: 0, count: 0, max: MAX_DATAGRAMS };
        let incoming = Incoming { bytes: vec![0; MAX_PACKET_BYTES], source: local, datagram: 0, left: 0..0 };
        Ok(Self { socket, local, outgoing, incoming })
    }

    /// The address and the port.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends the first `len` bytes of the outgoing datagrams. Keeps the rest, which begins a new sequence.
    fn send_first(&mut self, len: usize) -> io::Result<()> {
        let Outgoing { bytes, destination, datagram, count, max } = &mut self.outgoing;
        let first = &bytes[..len];
        let one_by_one = || first.chunks(*datagram).try_for_each(|one| send(&self.socket, one, *destination));
        let result = if *count == 1 {
            one_by_one()
        } else {
            send_many(&self.socket, first, *destination, *datagram).or_else(|error| {
                let never = [Errno::EIO, Errno::EOPNOTSUPP].map(|errno| Some(errno as i32));
                if never.contains(&error.raw_os_error()) {
                    *max = 1;
                }
                one_by_one()
            })
        };
        bytes.drain(..len);
        *count = 0;
        match result {
            // The machine has lost the socket's address, perhaps for a moment.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }
}

/// Sends a datagram. It is lost if the machine has no room for it.
fn send(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
    unless_lost(send_raw(socket, bytes, to, None).map_err(io::Error::from)).map(drop)
}

/// Sends datagrams of a length, or all bytes as one.
fn send_raw(
    socket: &UdpSocket,
    bytes: &[u8],
    to: SocketAddr,
    datagram: Option<usize>,
) -> Result<usize, Errno> {
    let datagram = datagram.map(|len| len as u16);
    let control = datagram.as_ref().map(ControlMessage::UdpGsoSegments);
    let to = SockaddrStorage::from(to);
    sendmsg(socket.as_raw_fd(), &[IoSlice::new(bytes)], control.as_slice(), MsgFlags::empty(), Some(&to))
}

/// Sends datagrams of a length at once.
///
/// # Errors
///
/// If they have to be sent one by one: a network card or `IPsec` permits no more (`EIO`, `EOPNOTSUPP`), or they exceed the
/// MTU of the path (`EINVAL`, `EMSGSIZE`).
fn send_many(socket: &UdpSocket, bytes: &[u8], to: SocketAddr, datagram: usize) -> io::Result<()> {
    match send_raw(socket, bytes, to, Some(datagram)) {
        Err(error @ (Errno::EIO | Errno::EOPNOTSUPP | Errno::EINVAL | Errno::EMSGSIZE)) => Err(error.into()),
        sent => unless_lost(sent.map_err(io::Error::from)).map(drop),
    }
}

impl Outgoing {
    /// True if a datagram of `len` bytes for a destination continues the sequence of `before` bytes.
    fn is_continued_by(&self, before: usize, len: usize, destination: SocketAddr) -> bool {
        self.count < self.max
            && destination == self.destination
            && len <= self.datagram
            && before == self.count * self.datagram
            && before + len <= MAX_BYTES
    }
}

impl Incoming {
    /// The next datagram.
    fn next(&mut self) -> Option<&[u8]> {
        if self.left.is_empty() {
            return None;
        }
        let start = self.left.start;
        let end = self.left.end.min(start + self.datagram);
        self.left.start = end;
        Some(&self.bytes[start..end])
    }

    /// Receives datagrams; returns false if there are none.
    fn fill(&mut self, socket: &UdpSocket) -> io::Result<bool> {
        let mut control = nix::cmsg_space!(i32);
        let mut slices = [IoSliceMut::new(&mut self.bytes)];
        let received = recvmsg::<SockaddrStorage>(
            socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            MsgFlags::empty(),
        );
        let Some(received) = unless_lost(received.map_err(io::Error::from))? else { return Ok(false) };
        let len = received.bytes;
        let segments = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::UdpGroSegments(len) => usize::try_from(len).ok(),
            _ => None,
        });
        let source = received.address.as_ref().and_then(|address| {
            let v4 = address.as_sockaddr_in().map(|&v4| SocketAddr::V4(v4.into()));
            v4.or_else(|| address.as_sockaddr_in6().map(|&v6| SocketAddr::V6(v6.into())))
        });
        self.source = source.unwrap_or(self.source);
        self.datagram = segments.filter(|&len| len > 0).unwrap_or(len).max(1);
        self.left = 0..len;
        Ok(true)
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
            let Some(datagram) = self.incoming.next() else {
                if self.incoming.fill(&self.socket)? {
                    continue;
                }
                return Ok(None);
            };
            bytes.clear();
            bytes.extend_from_slice(datagram);
            if let Ok(mut packet) = sctp::Packet::parse(bytes) {
                let from = self.incoming.source;
                packet.udp = Some(Ports { source: from.port(), destination: self.local.port() });
                let (source, destination) = (from.ip(), self.local.ip());
                return Ok(Some(Packet { source, destination, ecn: Ecn::NotEct, body: Body::Sctp(packet) }));
            }
        }
    }

    fn send(&mut self, packet: &Packet, fill: Fill<'_>, _scratch: &mut Vec<u8>) -> io::Result<()> {
        // The socket carries only SCTP.
        let Body::Sctp(body @ sctp::Packet { udp: Some(ports), .. }) = &packet.body else { return Ok(()) };
        let destination = (packet.destination, ports.destination).into();
        let before = self.outgoing.bytes.len();
        body.emit_with(&mut self.outgoing.bytes, fill);
        let len = self.outgoing.bytes.len() - before;
        if before > 0 && !self.outgoing.is_continued_by(before, len, destination) {
            self.send_first(before)?;
        }
        let outgoing = &mut self.outgoing;
        if outgoing.count == 0 {
            (outgoing.destination, outgoing.datagram) = (destination, len);
        }
        outgoing.count += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.outgoing.bytes.len() {
            0 => Ok(()),
            len => self.send_first(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_testkit::namespace::{Need, ip, machine_has, within};
    use core::net::Ipv4Addr;

    /// A packet with this tag and this number of bytes of padding.
    fn packet(from: &Udp, to: &Udp, tag: u32, len: u16) -> Packet {
        let body = sctp::Packet {
            source_port: 1,
            destination_port: 2,
            verification_tag: tag,
            chunks: sctp::Chunk::Pad(sctp::Pad { len }).into(),
            udp: Some(Ports { source: from.local().port(), destination: to.local().port() }),
            may_fragment: false,
            zero_checksum: false,
        };
        let localhost = Ipv4Addr::LOCALHOST.into();
        Packet { source: localhost, destination: localhost, ecn: Ecn::NotEct, body: Body::Sctp(body) }
    }

    fn sockets<const N: usize>() -> [Udp; N] {
        core::array::from_fn(|_| Udp::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket"))
    }

    fn send(from: &mut Udp, packet: &Packet) {
        let mut none = |_, _: &mut [u8]| unreachable!("the packet has no payload");
        from.send(packet, &mut none, &mut Vec::new()).expect("sent");
    }

    #[test]
    fn packet_arrives_with_its_source_port() {
        let [mut a, mut b] = sockets();
        let packet = packet(&a, &b, 3, 0);
        let mut bytes = Vec::new();
        send(&mut a, &packet);
        assert_eq!(b.receive(&mut bytes).expect("no error"), None, "the packet waits for others");
        a.flush().expect("sent");
        assert_eq!(b.receive(&mut bytes).expect("received"), Some(packet));
        assert_eq!(b.receive(&mut bytes).expect("no error"), None);
        assert_eq!(a.receive(&mut bytes).expect("nothing"), None);
    }

    #[test]
    fn packets_arrive_in_order_whatever_their_lengths() {
        let [mut a, mut b, mut c] = sockets();
        // Runs of one length, shorter and longer ones, more than the kernel takes at once, and another destination.
        let lengths = [0, 0, 40, 40, 40, 8, 40, 400, 8, 8];
        let lengths = lengths.into_iter().chain([1000; 200]);
        let packets: Vec<_> = lengths.enumerate().map(|(tag, len)| packet(&a, &b, tag as u32, len)).collect();
        let other = packet(&a, &c, 999, 1000);
        for (at, packet) in packets.iter().enumerate() {
            send(&mut a, packet);
            if at == 100 {
                send(&mut a, &other);
            }
        }
        a.flush().expect("sent");
        let mut bytes = Vec::new();
        for packet in &packets {
            assert_eq!(b.receive(&mut bytes).expect("received").as_ref(), Some(packet));
        }
        assert_eq!(b.receive(&mut bytes).expect("no error"), None);
        assert_eq!(c.receive(&mut bytes).expect("received"), Some(other));
        assert_eq!(a.outgoing.max, MAX_DATAGRAMS, "the kernel accepts them");
    }

    #[test]
    fn datagrams_beyond_the_mtu_arrive() {
        if !machine_has(&[Need::Namespaces]) {
            return;
        }
        within("udp-mtu", || {
            ip("link set lo up mtu 1300");
            let [mut a, mut b] = sockets();
            let packets: Vec<_> = (0..20).map(|tag| packet(&a, &b, tag, 1400)).collect();
            for packet in &packets {
                send(&mut a, packet);
            }
            a.flush().expect("sent one by one, in fragments");
            let mut bytes = Vec::new();
            for packet in &packets {
                assert_eq!(b.receive(&mut bytes).expect("received").as_ref(), Some(packet));
            }
            assert_eq!(a.outgoing.max, MAX_DATAGRAMS, "other destinations may have another MTU");
        });
    }

    #[test]
    fn refusal_of_many_datagrams_is_no_loss() {
        let [a, b] = sockets();
        let refused =
            send_many(&a.socket, &vec![0; 100_000], b.local(), 1000).expect_err("more than a packet");
        assert_eq!(refused.raw_os_error(), Some(Errno::EMSGSIZE as i32));
    }
}
