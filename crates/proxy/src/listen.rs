//! Where clients come to.

use super::error::Error;
use super::sockopt;
use super::stream::{Transport, open, prepare};
use core::net::SocketAddr;
use socket2::SockRef;
use std::io;
use tokio::net::{TcpListener, TcpStream};

/// Connections that wait to be accepted, as far as `net.core.somaxconn` has it.
const BACKLOG: i32 = 4096;

/// Listens at an address.
///
/// # Errors
/// If the address is not the machine's, or taken, or not ours to take.
pub fn listen(address: SocketAddr, transport: Transport) -> Result<TcpListener, Error> {
    let listening = || -> io::Result<TcpListener> {
        let socket = open(address, transport)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    listening().map_err(|error| Error::Refused(format!("cannot listen on {address}: {error}")))
}

/// Listens at an address of loopback for connections to anywhere, which the kernel hands over (TPROXY): the local address of
/// each is where its client wants to go.
///
/// # Errors
/// As [`listen`], and without the capability for it.
pub fn intercept(address: SocketAddr) -> Result<TcpListener, Error> {
    let refused = |error| Error::Refused(format!("cannot take connections to others at {address}: {error}"));
    let listener = listen(address, Transport::Tcp)?;
    // The kernel looks when a connection comes, not when the socket is bound.
    let socket = SockRef::from(&listener);
    if address.is_ipv4() {
        socket.set_ip_transparent_v4(true)
    } else {
        sockopt::set_transparent_v6(&listener)
    }
    .map_err(refused)?;
    Ok(listener)
}

/// The next client.
///
/// # Errors
/// If the kernel has no descriptor or memory for it, or it has gone already.
pub async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    prepare(&SockRef::from(&stream))?;
    Ok((stream, peer))
}
