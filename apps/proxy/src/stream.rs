//! Sockets of streams, TCP or Multipath TCP, set as a proxy wants them.

use super::log;
use core::net::SocketAddr;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::net::TcpStream;

/// Bytes that are written and not sent, at most: data that a slow client has not taken stay at the server.
const MAX_UNSENT_BYTES: u32 = 256 << 10;

/// Interval and number of keep-alive probes without an answer, after which the peer is taken for dead.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEP_ALIVE_RETRIES: u32 = 8;

/// Transport of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// Multipath TCP.
    Mptcp,
}

impl Transport {
    /// Multipath TCP if this kernel has it, otherwise TCP, which is logged once.
    pub fn multipath() -> Self {
        static FOUND: OnceLock<Transport> = OnceLock::new();
        *FOUND.get_or_init(Self::find)
    }

    fn find() -> Self {
        match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
            Ok(_) => Self::Mptcp,
            Err(error) => {
                log::say(format_args!(
                    "no Multipath TCP ({error}; is net.mptcp.enabled 1?): using TCP, over one link"
                ));
                Self::Tcp
            }
        }
    }

    /// As the kernel knows it.
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Tcp => Protocol::TCP,
            Self::Mptcp => Protocol::MPTCP,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Mptcp => "Multipath TCP",
        }
    }
}

/// Options of the sockets of streams.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// The transport.
    pub transport: Transport,
    /// Idle time before a keep-alive probe, in whole seconds.
    pub keep_alive: Duration,
}

/// A socket for streams to or from an address, which never waits.
///
/// # Errors
/// If the kernel has no such protocol, or no more descriptors.
pub fn open(address: SocketAddr, transport: Transport) -> io::Result<Socket> {
    let (domain, kind) = (Domain::for_address(address), Type::STREAM.nonblocking());
    let socket = Socket::new(domain, kind, Some(transport.protocol()))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Sets the options that every stream of a proxy has.
///
/// Until [`end_well`], closing the socket resets the connection, for any reason (an error on the other side,
/// the end of this process), so that the peer does not take a truncated stream for a whole one. Urgent data stay in the stream
/// (`SO_OOBINLINE`, RFC 6093 §5): otherwise the kernel removes the urgent byte from the stream.
///
/// # Errors
/// If the kernel refuses.
pub fn prepare(stream: &SockRef<'_>, keep_alive: Duration) -> io::Result<()> {
    stream.set_linger(Some(Duration::ZERO))?;
    if_known(stream.set_out_of_band_inline(true))?;
    let keepalive = TcpKeepalive::new()
        .with_time(keep_alive)
        .with_interval(KEEP_ALIVE_INTERVAL)
        .with_retries(KEEP_ALIVE_RETRIES);
    if_known(stream.set_tcp_nodelay(true))?;
    if_known(stream.set_tcp_keepalive(&keepalive))?;
    if_known(stream.set_tcp_notsent_lowat(MAX_UNSENT_BYTES))
}

/// Options that older kernels do not have for Multipath TCP (`TCP_NODELAY`, `TCP_NOTSENT_LOWAT`, `TCP_KEEPIDLE` and its like came
/// one by one) are as the kernel has them: no reason to turn a client away.
fn if_known(set: io::Result<()>) -> io::Result<()> {
    match set.as_ref().map_err(io::Error::raw_os_error) {
        Err(Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT)) => Ok(()),
        _ => set,
    }
}

/// Closes a stream that has ended properly: bytes that are written still go out.
pub fn end_well(stream: TcpStream) {
    let_end_well(&stream);
    drop(stream);
}

fn let_end_well(stream: &TcpStream) {
    // A socket that refuses this is dead already.
    drop(SockRef::from(stream).set_linger(None));
}

/// Writes all of a few bytes.
///
/// # Errors
/// If the connection is broken.
pub async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads what is there, and appends it; zero at the end of the stream.
///
/// # Errors
/// If the connection is broken.
pub async fn read_some(stream: &TcpStream, bytes: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match append(stream, bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

fn append(stream: &TcpStream, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let mut some = [0; 4096];
    let len = stream.try_read(&mut some)?;
    bytes.extend_from_slice(&some[..len]);
    Ok(len)
}

/// Reads what is there and does not wait; nothing at the end of the stream, which the next reading finds again.
///
/// # Errors
/// If the connection is broken.
pub fn read_now(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match append(stream, &mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(bytes),
        done => done.map(|_| bytes),
    }
}

/// Bytes and time for which a peer is read after a refusal: if they were not read, a reset would overtake the answer.
const MAX_FAREWELL_BYTES: usize = 64 << 10;
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// Closes a stream after the last word was written to it, when the peer has had it.
pub async fn take_leave(stream: TcpStream) {
    leave(&stream).await;
}

/// The same for a stream that others have as well: it closes with the last of them.
pub async fn leave(stream: &TcpStream) {
    drop(SockRef::from(stream).shutdown(std::net::Shutdown::Write));
    let read = async {
        let (mut bytes, mut left) = (Vec::with_capacity(1024), MAX_FAREWELL_BYTES);
        while let Ok(len @ 1..) = read_some(stream, &mut bytes).await {
            left = left.saturating_sub(len);
            if left == 0 {
                break;
            }
            bytes.clear();
        }
    };
    // Time out or end of stream: both are the end.
    drop(tokio::time::timeout(FAREWELL_TIMEOUT, read).await);
    let_end_well(stream);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_socket_option_is_ignored() {
        let refusal = |code| if_known(Err(io::Error::from_raw_os_error(code)));
        assert!(refusal(libc::EOPNOTSUPP).is_ok() && refusal(libc::ENOPROTOOPT).is_ok());
        assert!(refusal(libc::EINVAL).is_err() && if_known(Ok(())).is_ok());
    }
}
