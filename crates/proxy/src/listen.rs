//! Where clients come to.

use super::error::Error;
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

/// The next client.
///
/// # Errors
/// If the kernel has no descriptor or memory for it, or it has gone already.
pub async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    prepare(&SockRef::from(&stream))?;
    Ok((stream, peer))
}
