//! UDP sockets of a relay.

use core::net::SocketAddr;
use socket2::{Domain, Socket, Type};
use std::cell::RefCell;
use std::io;
use tokio::net::UdpSocket;

/// More than the longest payload of a UDP datagram, bytes.
const MAX_PAYLOAD_BYTES: usize = 1 << 16;
/// Requested size of the receive buffer, bytes. The kernel's limit is `net.core.rmem_max`.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

thread_local! {
    /// Buffer that all sockets of a thread share, so an idle association needs no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; MAX_PAYLOAD_BYTES].into_boxed_slice());
}

/// Opens a socket on a local address. If its port is 0, the kernel chooses one.
///
/// # Errors
/// If the address is not local, or no descriptor or port is left.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// Receives a datagram that is already in the socket's buffer; returns its payload and its source.
///
/// # Errors
/// `WouldBlock` without a datagram.
pub fn receive_from(socket: &UdpSocket) -> io::Result<(Vec<u8>, SocketAddr)> {
    SCRATCH.with_borrow_mut(|scratch| {
        let (len, source) = socket.try_recv_from(scratch)?;
        Ok((scratch[..len].to_vec(), source))
    })
}
