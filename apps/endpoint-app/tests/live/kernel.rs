//! Multipath TCP sockets of the Linux kernel, as peers of the program.

use rustix::net::{AddressFamily, Protocol, SocketType, bind, connect, listen, socket};
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::Duration;

fn mptcp_socket() -> OwnedFd {
    let protocol = Protocol::from_raw(NonZeroU32::new(262).expect("not zero"));
    socket(AddressFamily::INET, SocketType::STREAM, Some(protocol)).expect("the kernel has Multipath TCP")
}

/// Opens a listening socket.
pub fn listener(port: u16) -> TcpListener {
    let socket = mptcp_socket();
    bind(&socket, &SocketAddr::from(([0, 0, 0, 0], port))).expect("the port is free");
    listen(&socket, 1).expect("a bound socket can listen");
    TcpListener::from(socket)
}

/// Opens a connected socket.
pub fn connected(remote: SocketAddr) -> TcpStream {
    let socket = mptcp_socket();
    connect(&socket, &remote).expect("the peer listens");
    TcpStream::from(socket)
}

/// Accepts a connection and reads it to its end, with a pause after each read.
pub fn read_all(listener: TcpListener, pause: Duration) -> JoinHandle<std::io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let (mut read, mut some) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            let len = stream.read(&mut some)?;
            if len == 0 {
                return Ok(read);
            }
            read.extend_from_slice(&some[..len]);
            std::thread::sleep(pause);
        }
    })
}
