//! Listening sockets.

use super::error::Error;
use super::handover::Inherited;
use super::sockopt;
use super::stream::{Transport, open, prepare};
use core::net::SocketAddr;
use socket2::{SockRef, Socket};
use std::io;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Maximum number of connections that wait to be accepted (backlog). The kernel uses `net.core.somaxconn` if that is
/// lower.
const BACKLOG: i32 = 4096;

/// Listens on an address. Uses the listening socket for this address that an earlier process has handed over, if there
/// is one.
///
/// # Errors
/// If the address is not local or already in use, or the process lacks the permission.
pub fn listen(
    address: SocketAddr,
    transport: Transport,
    inherited: Option<&mut Inherited>,
) -> Result<TcpListener, Error> {
    let earlier = inherited.and_then(|inherited| take_inherited(&mut inherited.sockets, address, transport));
    let open_listener = || -> io::Result<Socket> {
        let socket = open(address, transport)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket)
    };
    earlier
        .map_or_else(open_listener, Ok)
        .and_then(|socket| TcpListener::from_std(socket.into()))
        .map_err(|error| Error::Refused(format!("cannot listen on {address}: {error}")))
}

/// Removes and returns the inherited socket that listens on the address. Port 0 stands for any port.
fn take_inherited(sockets: &mut Vec<Socket>, address: SocketAddr, transport: Transport) -> Option<Socket> {
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

/// Listens on a loopback address and accepts connections to any address, which the kernel redirects to this socket
/// (TPROXY). The local address of an accepted connection is the address to which the client connected.
///
/// # Errors
/// The errors of [`listen`], or that the process lacks the capability `CAP_NET_ADMIN`.
pub fn intercept(address: SocketAddr) -> Result<TcpListener, Error> {
    let refused = |error| Error::Refused(format!("cannot intercept connections at {address}: {error}"));
    let listener = listen(address, Transport::Tcp, None)?;
    // The kernel reads this option when a connection arrives, so it may be set after `bind`.
    let socket = SockRef::from(&listener);
    if address.is_ipv4() {
        socket.set_ip_transparent_v4(true)
    } else {
        sockopt::set_transparent_v6(&listener)
    }
    .map_err(refused)?;
    Ok(listener)
}

/// Accepts the next client; `keep_alive` is the idle time before a keep-alive probe.
///
/// # Errors
/// If the kernel has no descriptor or memory left, or the client has already disconnected.
pub async fn accept(listener: &TcpListener, keep_alive: Duration) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    prepare(&SockRef::from(&stream), keep_alive)?;
    Ok((stream, peer))
}
