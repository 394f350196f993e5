//! Joins two streams: bytes that are read from one are written to the other, with ends and resets.

use super::stream::{leave, read_some};
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

/// The most that is read at once, bytes, and so the most that waits in a direction whose reader is slow.
const PIECE_BYTES: usize = 128 << 10;

thread_local! {
    /// Where all connections of a thread read to: a silent one has no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE_BYTES].into_boxed_slice());
}

/// Bytes that were read from the two streams before.
#[derive(Debug, Default)]
pub struct First {
    /// Of the client.
    pub up: Vec<u8>,
    /// Of the server.
    pub down: Vec<u8>,
}

/// Carries bytes between client and server until both have ended. Of an end that is gone after its own stream has ended, all
/// that it sent is delivered.
///
/// # Errors
/// If one end breaks, or no byte is carried for `idle_timeout`: both are reset, so that each end knows.
pub async fn relay(
    client: TcpStream,
    server: TcpStream,
    first: First,
    carried: &Carried,
    idle_timeout: Duration,
) -> io::Result<()> {
    let (client, server) = (Arc::new(client), Arc::new(server));
    carried.begin(&client, &server);
    let ended = tokio::select! {
        ended = exchange(&client, &server, first, carried) => ended,
        () = idle(carried, idle_timeout) => Err(ErrorKind::TimedOut.into()),
    };
    // While the kernel knows of subflows, and once more when the last bytes have been acknowledged.
    drop(carried.sample());
    if ended.is_ok() {
        tokio::join!(leave(&client), leave(&server));
        drop(carried.sample());
    }
    ended
}

/// Waits until no byte has been carried for a time, to a quarter of that time.
async fn idle(carried: &Carried, timeout: Duration) {
    let bytes = || [&carried.up, &carried.down].map(|bytes| bytes.load(Ordering::Relaxed));
    let (mut seen, mut quarters) = (bytes(), 0);
    while quarters < 4 {
        tokio::time::sleep(timeout / 4).await;
        let now = bytes();
        quarters = if now == seen { quarters + 1 } else { 0 };
        seen = now;
    }
}

/// Carries bytes both ways until both have ended.
async fn exchange(client: &TcpStream, server: &TcpStream, first: First, carried: &Carried) -> io::Result<()> {
    {
        let count = Count { bytes: &carried.up, carried };
        let mut up = pin!(pump(client, server, first.up, count));
        let count = Count { bytes: &carried.down, carried };
        let mut down = pin!(pump(server, client, first.down, count));
        // Dropped before they have ended well, both streams are reset.
        tokio::select! {
            ended = &mut up => rest(ended, client, down).await?,
            ended = &mut down => rest(ended, server, up).await?,
        }
    }
    Ok(())
}

/// The end at which a direction broke.
#[derive(Debug)]
enum Broken {
    /// The end that it reads from.
    Source(io::Error),
    /// The end that it writes to.
    Target(io::Error),
}

impl Broken {
    /// Whether the target is gone and its own stream had ended before: a reset is `EPIPE` after the peer's FIN and
    /// `ECONNRESET` without one.
    ///
    /// A source never is: Linux reports `ENOTCONN` for a Multipath TCP stream that lost its last subflow before its end.
    fn target_is_gone(&self) -> bool {
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

/// Carries the other direction to its end after one direction, read from `from`, has ended.
async fn rest(
    ended: Result<(), Broken>,
    from: &TcpStream,
    other: impl Future<Output = Result<(), Broken>>,
) -> io::Result<()> {
    match ended {
        Ok(()) => match other.await {
            Err(broken) if !broken.target_is_gone() => Err(broken.into()),
            _ => Ok(()),
        },
        Err(broken) if broken.target_is_gone() => tokio::select! {
            ended = other => Ok(ended?),
            error = swallow(from) => Err(error),
        },
        Err(broken) => Err(broken.into()),
    }
}

/// Discards bytes whose receiver is gone, until the stream breaks. Unread bytes would block their sender, and turn the close
/// into a reset.
async fn swallow(from: &TcpStream) -> io::Error {
    let mut bytes = Vec::new();
    loop {
        match read_some(from, &mut bytes).await {
            Ok(0) => std::future::pending().await,
            Ok(_) => bytes.clear(),
            Err(error) => return error,
        }
    }
}

/// So many pieces are passed before other connections of the thread have their turn.
const MAX_PIECES_IN_A_ROW: u32 = 8;

/// Where a direction is counted.
#[derive(Clone, Copy)]
struct Count<'a> {
    bytes: &'a AtomicU64,
    carried: &'a Carried,
}

/// Carries one direction until its end.
async fn pump(
    from: &TcpStream,
    to: &TcpStream,
    mut waiting: Vec<u8>,
    count: Count<'_>,
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
                    // If `from` breaks, writing to it reports that; earlier bytes are still carried.
                    let begin = Instant::now();
                    to.writable().await.map_err(Broken::Target)?;
                    count.carried.waited(begin.elapsed());
                }
                Err(error) => return Err(Broken::Target(error)),
            }
        }
        // Given back while nothing waits.
        waiting = Vec::new();
        match pass(from, to)? {
            Passed::Some { written, rest } => {
                count.bytes.fetch_add(written as u64, Ordering::Relaxed);
                waiting = rest;
                pieces += 1;
                if pieces == MAX_PIECES_IN_A_ROW {
                    pieces = 0;
                    tokio::task::yield_now().await;
                }
            }
            Passed::Nothing => readable_unless_broken(from, to).await?,
            Passed::End => return SockRef::from(to).shutdown(Shutdown::Write).map_err(Broken::Target),
        }
    }
}

/// Result of one read and one write.
enum Passed {
    /// So much was written, and this was read and not written.
    Some { written: usize, rest: Vec<u8> },
    /// There is nothing to read.
    Nothing,
    /// The stream has ended.
    End,
}

fn pass(from: &TcpStream, to: &TcpStream) -> Result<Passed, Broken> {
    SCRATCH.with_borrow_mut(|scratch| {
        let read = match from.try_read(scratch) {
            Ok(0) => return Ok(Passed::End),
            Ok(len) => &scratch[..len],
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Passed::Nothing),
            Err(error) => return Err(Broken::Source(error)),
        };
        let written = match to.try_write(read) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(Broken::Target(error)),
        };
        Ok(Passed::Some { written, rest: read[written..].to_vec() })
    })
}

/// Waits for something to read, unless who it is for breaks meanwhile.
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
