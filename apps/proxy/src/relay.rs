//! Relays two streams: bytes read from one are written to the other. When a stream ends or is reset, so is the other
//! one.

use super::stream::{finish_gracefully, read_some};
pub use super::watch::connection::Carried;
use socket2::SockRef;
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Maximum number of bytes per read. If the receiver is slow, this is also the maximum of buffered bytes per direction.
const PIECE_BYTES: usize = 128 << 10;

thread_local! {
    /// Read buffer that all connections of a thread share, so an idle connection needs no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE_BYTES].into_boxed_slice());
}

/// Decides from the beginning of a stream whether it may be relayed; `None` while more bytes are needed.
pub type MayRelay = fn(&[u8]) -> Option<bool>;

/// Bytes that were read from the two streams before the relay started.
#[derive(Debug, Default)]
pub struct StreamPrefixes {
    /// Bytes from the client.
    pub up: Vec<u8>,
    /// Bytes from the server.
    pub down: Vec<u8>,
    /// Decides from the client's first bytes whether they may be relayed. Until it has decided, only bytes from the
    /// server are relayed.
    pub may_relay: Option<MayRelay>,
}

/// Relays bytes between client and server until both streams have ended. If one peer closes its socket after the end of its
/// stream, all bytes that it sent are still delivered.
///
/// # Errors
/// If a connection fails, or no byte is relayed for `idle_timeout`. Both connections are then reset.
pub async fn relay(
    client: TcpStream,
    server: TcpStream,
    first: StreamPrefixes,
    carried: &Carried,
    idle_timeout: Duration,
) -> io::Result<()> {
    let (client, server) = (Arc::new(client), Arc::new(server));
    carried.begin(&client, &server);
    let ended = tokio::select! {
        ended = exchange(&client, &server, first, carried) => ended,
        () = wait_until_idle(|| carried.bytes(), idle_timeout) => Err(ErrorKind::TimedOut.into()),
    };
    // Samples the counters while the kernel still has the subflows, and below again, after the last bytes have been
    // acknowledged.
    drop(carried.sample());
    if ended.is_ok() {
        tokio::join!(finish_gracefully(&client), finish_gracefully(&server));
        drop(carried.sample());
    }
    ended
}

/// Waits until a counter has not changed for `timeout`. The wait may be up to a quarter of `timeout` longer.
pub async fn wait_until_idle<T: PartialEq>(counter: impl Fn() -> T, timeout: Duration) {
    let (mut seen, mut quarters) = (counter(), 0);
    while quarters < 4 {
        tokio::time::sleep(timeout / 4).await;
        let now = counter();
        quarters = if now == seen { quarters + 1 } else { 0 };
        seen = now;
    }
}

/// Relays both directions until both have ended.
async fn exchange(
    client: &TcpStream,
    server: &TcpStream,
    first: StreamPrefixes,
    carried: &Carried,
) -> io::Result<()> {
    {
        let count = DirectionCounter { bytes: &carried.up, carried };
        let mut up = pin!(async {
            let mut waiting = first.up;
            if let Some(may_relay) = first.may_relay {
                read_until_decided((client, server), may_relay, &mut waiting).await?;
            }
            relay_direction(client, server, waiting, count).await
        });
        let count = DirectionCounter { bytes: &carried.down, carried };
        let mut down = pin!(relay_direction(server, client, first.down, count));
        // If the streams are dropped before both directions have ended, the sockets send a reset.
        tokio::select! {
            ended = &mut up => finish_other_direction(ended, client, down).await?,
            ended = &mut down => finish_other_direction(ended, server, up).await?,
        }
    }
    Ok(())
}

/// Reads the client's first bytes until `may_relay` has decided. A stream that ends before the decision may be relayed.
async fn read_until_decided(
    (client, server): (&TcpStream, &TcpStream),
    may_relay: MayRelay,
    bytes: &mut Vec<u8>,
) -> Result<(), Broken> {
    loop {
        match may_relay(bytes) {
            Some(true) => return Ok(()),
            Some(false) => return Err(Broken::Source(ErrorKind::InvalidData.into())),
            None => readable_unless_broken(client, server).await?,
        }
        if read_some(client, bytes).await.map_err(Broken::Source)? == 0 {
            return Ok(());
        }
    }
}

/// The socket at which the relay of a direction failed.
#[derive(Debug)]
enum Broken {
    /// Reading from the source socket failed.
    Source(io::Error),
    /// Writing to the target socket failed.
    Target(io::Error),
}

impl Broken {
    /// True if the target sent its FIN before the reset. Writing then fails with `EPIPE`, otherwise with `ECONNRESET`.
    ///
    /// False for a failure to read from the source, which does not show whether the source sent its FIN: Linux reports
    /// `ENOTCONN` also for a Multipath TCP stream that lost its last subflow before its end.
    fn target_closed_early(&self) -> bool {
        matches!(self, Self::Target(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::NotConnected))
    }
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Source(error) | Broken::Target(error) => error,
        }
    }
}

/// Relays the other direction to its end after the direction that reads from `from` has ended.
async fn finish_other_direction(
    ended: Result<(), Broken>,
    from: &TcpStream,
    other: impl Future<Output = Result<(), Broken>>,
) -> io::Result<()> {
    match ended {
        Ok(()) => match other.await {
            Err(broken) if !broken.target_closed_early() => Err(broken.into()),
            _ => Ok(()),
        },
        Err(broken) if broken.target_closed_early() => tokio::select! {
            ended = other => Ok(ended?),
            error = discard_input(from) => Err(error),
        },
        Err(broken) => Err(broken.into()),
    }
}

/// Reads and discards the bytes for a receiver that has closed, until the stream fails. Unread bytes would block their
/// sender, and would make the kernel send a reset instead of a FIN on close.
async fn discard_input(from: &TcpStream) -> io::Error {
    let mut bytes = Vec::new();
    loop {
        match read_some(from, &mut bytes).await {
            Ok(0) => std::future::pending().await,
            Ok(_) => bytes.clear(),
            Err(error) => return error,
        }
    }
}

/// Maximum number of reads in a row; then other connections of the thread get their turn.
const MAX_PIECES_IN_A_ROW: u32 = 8;

/// Byte counter of a direction.
#[derive(Clone, Copy)]
struct DirectionCounter<'a> {
    bytes: &'a AtomicU64,
    carried: &'a Carried,
}

/// Relays one direction until its end.
async fn relay_direction(
    from: &TcpStream,
    to: &TcpStream,
    mut waiting: Vec<u8>,
    count: DirectionCounter<'_>,
) -> Result<(), Broken> {
    let mut pieces = 0;
    loop {
        while !waiting.is_empty() {
            match to.try_write(&waiting) {
                Ok(len) => {
                    count.bytes.fetch_add(len as u64, Ordering::Relaxed);
                    waiting.drain(..len);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // A failure of `from` is reported by the other direction, which writes to `from`. Bytes read before
                    // the failure are still relayed.
                    let begin = Instant::now();
                    to.writable().await.map_err(Broken::Target)?;
                    count.carried.record_wait(begin.elapsed());
                }
                Err(error) => return Err(Broken::Target(error)),
            }
        }
        // Frees the buffer, since all its bytes have been written.
        waiting = Vec::new();
        match copy_once(from, to)? {
            Copied::Some { written, rest } => {
                count.bytes.fetch_add(written as u64, Ordering::Relaxed);
                waiting = rest;
                pieces += 1;
                if pieces == MAX_PIECES_IN_A_ROW {
                    pieces = 0;
                    tokio::task::yield_now().await;
                }
            }
            Copied::NoInput => readable_unless_broken(from, to).await?,
            Copied::End => return SockRef::from(to).shutdown(Shutdown::Write).map_err(Broken::Target),
        }
    }
}

/// Result of one read and one write.
enum Copied {
    /// Number of written bytes, and the bytes that were read but not written.
    Some { written: usize, rest: Vec<u8> },
    /// The source has no bytes to read now.
    NoInput,
    /// The stream has ended.
    End,
}

fn copy_once(from: &TcpStream, to: &TcpStream) -> Result<Copied, Broken> {
    SCRATCH.with_borrow_mut(|scratch| {
        let read = match from.try_read(scratch) {
            Ok(0) => return Ok(Copied::End),
            Ok(len) => &scratch[..len],
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Copied::NoInput),
            Err(error) => return Err(Broken::Source(error)),
        };
        let written = match to.try_write(read) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(Broken::Target(error)),
        };
        Ok(Copied::Some { written, rest: read[written..].to_vec() })
    })
}

/// Waits until `from` is readable; returns an error if `to` fails first.
async fn readable_unless_broken(from: &TcpStream, to: &TcpStream) -> Result<(), Broken> {
    let broken = async {
        loop {
            let ready: Ready = to.ready(Interest::ERROR).await?;
            if ready.is_error() {
                return Err::<(), _>(to.take_error()?.unwrap_or_else(|| ErrorKind::ConnectionReset.into()));
            }
        }
    };
    tokio::select! {
        biased;
        ready = from.readable() => ready.map_err(Broken::Source),
        error = broken => error.map_err(Broken::Target),
    }
}
