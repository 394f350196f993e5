//! Two streams become one: what is read of either is written to the other, with its ends and its resets.

use super::stream::end_well;
use socket2::SockRef;
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;

/// The most that is read at once, bytes, and so the most that waits in a direction whose reader is slow.
const PIECE: usize = 128 << 10;

thread_local! {
    /// Where all connections of a thread read to: a silent one has no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE].into_boxed_slice());
}

/// Bytes that a connection has carried.
#[derive(Debug, Default)]
pub struct Carried {
    /// From the client to the server.
    pub up: AtomicU64,
    /// From the server to the client.
    pub down: AtomicU64,
}

/// What was read of two streams before.
#[derive(Debug, Default)]
pub struct First {
    /// Of the client.
    pub up: Vec<u8>,
    /// Of the server.
    pub down: Vec<u8>,
}

/// Carries bytes between client and server until both have ended.
///
/// # Errors
/// If one end breaks: both are reset, so that each end knows.
pub async fn relay(client: TcpStream, server: TcpStream, first: First, carried: &Carried) -> io::Result<()> {
    let up = pump(&client, &server, first.up, &carried.up);
    let down = pump(&server, &client, first.down, &carried.down);
    // Dropped before they have ended well, both streams are reset.
    tokio::try_join!(up, down)?;
    end_well(client);
    end_well(server);
    Ok(())
}

/// So many pieces are passed before other connections of the thread have their turn.
const PIECES_IN_A_ROW: u32 = 8;

/// Carries one direction until its end.
async fn pump(from: &TcpStream, to: &TcpStream, mut waiting: Vec<u8>, carried: &AtomicU64) -> io::Result<()> {
    let mut pieces = 0;
    loop {
        while !waiting.is_empty() {
            match to.try_write(&waiting) {
                Ok(len) => {
                    carried.fetch_add(len as u64, Ordering::Relaxed);
                    waiting.drain(..len);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    unless_broken(from, to, Interest::WRITABLE).await?;
                }
                Err(error) => return Err(error),
            }
        }
        // Given back while nothing waits.
        waiting = Vec::new();
        match pass(from, to)? {
            Passed::Some { written, rest } => {
                carried.fetch_add(written as u64, Ordering::Relaxed);
                waiting = rest;
                pieces += 1;
                if pieces == PIECES_IN_A_ROW {
                    pieces = 0;
                    tokio::task::yield_now().await;
                }
            }
            Passed::Nothing => unless_broken(to, from, Interest::READABLE).await?,
            Passed::End => return SockRef::from(to).shutdown(Shutdown::Write),
        }
    }
}

/// What came of reading once and writing once.
enum Passed {
    /// So much was written, and this was read and not written.
    Some { written: usize, rest: Vec<u8> },
    /// There is nothing to read.
    Nothing,
    /// The stream has ended.
    End,
}

fn pass(from: &TcpStream, to: &TcpStream) -> io::Result<Passed> {
    SCRATCH.with_borrow_mut(|scratch| {
        let read = match from.try_read(scratch) {
            Ok(0) => return Ok(Passed::End),
            Ok(len) => &scratch[..len],
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Passed::Nothing),
            Err(error) => return Err(error),
        };
        let written = match to.try_write(read) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        Ok(Passed::Some { written, rest: read[written..].to_vec() })
    })
}

/// Waits for one stream, unless the other breaks meanwhile, of which nothing is read or written now.
async fn unless_broken(other: &TcpStream, stream: &TcpStream, interest: Interest) -> io::Result<()> {
    let broken = async {
        loop {
            let ready: Ready = other.ready(Interest::ERROR).await?;
            if ready.is_error() {
                return Err::<(), _>(
                    other.take_error()?.unwrap_or_else(|| ErrorKind::ConnectionReset.into()),
                );
            }
        }
    };
    tokio::select! {
        biased;
        ready = stream.ready(interest) => ready.map(drop),
        error = broken => error,
    }
}
