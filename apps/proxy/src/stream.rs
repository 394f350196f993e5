//! Stream sockets (TCP or Multipath TCP) with the socket options of a proxy.

use super::log;
use core::net::SocketAddr;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::net::TcpStream;

/// Maximum number of bytes that were written but not sent. While a client is slow, further data for it remain at the
/// server.
const MAX_UNSENT_BYTES: u32 = 256 << 10;

/// Interval and number of keep-alive probes. If none is answered, the peer is considered dead.
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
    /// Returns Multipath TCP if the kernel supports it. Otherwise returns TCP, and logs the reason once.
    pub fn multipath() -> Self {
        /// Result of the first call.
        static FOUND: OnceLock<Transport> = OnceLock::new();
        *FOUND.get_or_init(Self::find)
    }

    /// Creates a Multipath TCP socket to learn whether the kernel supports it.
    fn find() -> Self {
        match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
            Ok(_) => Self::Mptcp,
            Err(error) => {
                log::log_line(format_args!(
                    "no Multipath TCP ({error}; check net.mptcp.enabled = 1): using TCP over one link"
                ));
                Self::Tcp
            }
        }
    }

    /// Returns the protocol number for the system call `socket`.
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Tcp => Protocol::TCP,
            Self::Mptcp => Protocol::MPTCP,
        }
    }

    /// Returns the name in messages.
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

/// Opens a non-blocking stream socket for connections to or from an address.
///
/// # Errors
/// If the kernel does not support the protocol, or has no descriptors left.
pub fn open(address: SocketAddr, transport: Transport) -> io::Result<Socket> {
    let (domain, kind) = (Domain::for_address(address), Type::STREAM.nonblocking());
    let socket = Socket::new(domain, kind, Some(transport.protocol()))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Sets the options that all streams have in common.
///
/// A stream is reset when its socket is closed, even by the end of this process, until [`close_with_fin`] is called. So
/// a peer does not take a truncated stream for a complete one. Urgent data stay in the stream (`SO_OOBINLINE`, RFC 6093
/// §5); without this option, the kernel would remove the urgent byte.
///
/// # Errors
/// If the kernel refuses.
pub fn prepare(stream: &SockRef<'_>, keep_alive: Duration) -> io::Result<()> {
    stream.set_linger(Some(Duration::ZERO))?;
    ignore_if_unsupported(stream.set_out_of_band_inline(true))?;
    let keepalive = TcpKeepalive::new()
        .with_time(keep_alive)
        .with_interval(KEEP_ALIVE_INTERVAL)
        .with_retries(KEEP_ALIVE_RETRIES);
    ignore_if_unsupported(stream.set_tcp_nodelay(true))?;
    ignore_if_unsupported(stream.set_tcp_keepalive(&keepalive))?;
    ignore_if_unsupported(stream.set_tcp_notsent_lowat(MAX_UNSENT_BYTES))
}

/// Ignores the error that an older kernel does not support an option for Multipath TCP; the kernel's default stays in
/// force then. Kernel versions have added `TCP_NODELAY`, `TCP_NOTSENT_LOWAT`, `TCP_KEEPIDLE` and others one after
/// another.
fn ignore_if_unsupported(set: io::Result<()>) -> io::Result<()> {
    match set.as_ref().map_err(io::Error::raw_os_error) {
        Err(Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT)) => Ok(()),
        _ => set,
    }
}

/// Closes a complete stream with a FIN instead of a reset. Bytes that were written before are still sent.
pub fn close_with_fin(stream: TcpStream) {
    disable_reset_on_close(&stream);
    drop(stream);
}

fn disable_reset_on_close(stream: &TcpStream) {
    // Ignore errors: the connection has already failed, so there is nothing to close with a FIN.
    drop(SockRef::from(stream).set_linger(None));
}

/// Writes all bytes.
///
/// # Errors
/// If the connection has failed.
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

/// Waits for bytes and appends them; returns zero at the end of the stream.
///
/// # Errors
/// If the connection has failed.
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

/// Reads the bytes that are available now, without waiting. At the end of the stream the result is empty as well; the
/// next read reports the end.
///
/// # Errors
/// If the connection has failed.
pub fn read_now(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match append(stream, &mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(bytes),
        done => done.map(|_| bytes),
    }
}

/// Maximum number of a peer's bytes that are discarded after the last answer. If they were not read, the
/// kernel would send a reset, and the peer could lose the answer.
const MAX_DISCARDED_BYTES: usize = 64 << 10;
/// Maximum time for which a peer's data are discarded after the last answer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Closes a stream to which the last answer was written, once the peer has closed its side or after a timeout.
pub async fn close_gracefully(stream: TcpStream) {
    finish_gracefully(&stream).await;
}

/// Does the same as [`close_gracefully`] for a shared stream: the socket is closed when its last owner drops it.
pub async fn finish_gracefully(stream: &TcpStream) {
    drop(SockRef::from(stream).shutdown(std::net::Shutdown::Write));
    let read = async {
        let (mut bytes, mut left) = (Vec::with_capacity(1024), MAX_DISCARDED_BYTES);
        while let Ok(len @ 1..) = read_some(stream, &mut bytes).await {
            left = left.saturating_sub(len);
            if left == 0 {
                break;
            }
            bytes.clear();
        }
    };
    // The socket is closed when the stream has ended, or after the timeout.
    drop(tokio::time::timeout(CLOSE_TIMEOUT, read).await);
    disable_reset_on_close(stream);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_socket_option_is_ignored() {
        let refusal = |code| ignore_if_unsupported(Err(io::Error::from_raw_os_error(code)));
        assert!(refusal(libc::EOPNOTSUPP).is_ok() && refusal(libc::ENOPROTOOPT).is_ok());
        assert!(refusal(libc::EINVAL).is_err() && ignore_if_unsupported(Ok(())).is_ok());
    }
}
