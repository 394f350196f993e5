//! Receives UDP datagrams.

use core::net::SocketAddr;
use std::cell::RefCell;
use std::io;
use tokio::net::UdpSocket;

/// More than the longest payload of a UDP datagram, bytes.
const MAX_PAYLOAD_BYTES: usize = 1 << 16;

thread_local! {
    /// Buffer that all sockets of a thread share, so an idle association needs no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; MAX_PAYLOAD_BYTES].into_boxed_slice());
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
