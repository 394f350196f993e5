//! Where clients come to.

use super::error::Error;
use super::handover::Inherited;
use super::sockopt;
use super::stream::{Transport, open, prepare};
use core::net::SocketAddr;
use socket2::{SockRef, Socket};
use std::io;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Connections that wait to be accepted, as far as `net.core.somaxconn` has it.
const BACKLOG: i32 = 4096;

/// Listens at an address: by a socket of an earlier process, if one of them does.
///
/// # Errors
/// If the address is not the machine's, or taken, or not ours to take.
pub fn listen(
    address: SocketAddr,
    transport: Transport,
    inherited: Option<&mut Inherited>,
) -> Result<TcpListener, Error> {
    let earlier = inherited.and_then(|inherited| take(&mut inherited.sockets, address, transport));
    let begin = || -> io::Result<Socket> {
        let socket = open(address, transport)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket)
    };
    earlier
        .map_or_else(begin, Ok)
        .and_then(|socket| TcpListener::from_std(socket.into()))
        .map_err(|error| Error::Refused(format!("cannot listen on {address}: {error}")))
}

/// The socket that listens at an address; port 0 is any.
fn take(sockets: &mut Vec<Socket>, address: SocketAddr, transport: Transport) -> Option<Socket> {
    let fits = |socket: &Socket| {
        let bound = socket.local_addr().ok().and_then(|bound| bound.as_socket());
        let is_there = bound.is_some_and(|bound| {
            bound.ip() == address.ip() && (bound.port() == address.port() || address.port() == 0)
        });
        is_there && socket.protocol().is_ok_and(|protocol| protocol == Some(transport.protocol()))
    };
    let found = sockets.iter().position(fits)?;
    Some(sockets.remove(found))
}

/// Listens at an address of loopback for connections to anywhere, which the kernel hands over (TPROXY): the local address of
/// each is where its client wants to go.
///
/// # Errors
/// As [`listen`], and without the capability for it.
pub fn intercept(address: SocketAddr) -> Result<TcpListener, Error> {
    let refused = |error| Error::Refused(format!("cannot intercept connections at {address}: {error}"));
    let listener = listen(address, Transport::Tcp, None)?;
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

/// The next client; `keep_alive` is the idle time before a keep-alive probe.
///
/// # Errors
/// If the kernel has no descriptor or memory for it, or it has gone already.
pub async fn accept(listener: &TcpListener, keep_alive: Duration) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    prepare(&SockRef::from(&stream), keep_alive)?;
    Ok((stream, peer))
}
