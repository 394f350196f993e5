//! Connections of TCP and Multipath TCP.

use super::command::Command;
use super::error::Error;
use super::link::{Link, common};
use anabranch_endpoint::{Event, Reason, Report};
use anabranch_host::ConnectionId;
use anabranch_multipath::PathId;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection of TCP or Multipath TCP.
///
/// Writes wait while the send buffer is full, and the receive window closes while the stream is not read.
/// `shutdown` ends writing, and reading goes on. If the stream is dropped, written data is still sent; if
/// data was not read, the connection is reset.
pub struct Stream(pub(super) Link);

common!(Stream);

impl Stream {
    /// Makes a subflow a backup, which carries data only while no other subflow can, or a usual one (`MP_PRIO`, RFC 8684
    /// §3.3.8). It holds for both directions.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchPath`] if there is no such subflow or the connection is plain TCP.
    pub async fn set_backup(&self, path: PathId, backup: bool) -> Result<(), Error> {
        self.0.ask(|reply| Command::SetBackup(self.id(), path, backup, reply)).await?
    }
}

/// Reads and writes of a stream that several tasks share.
impl AsyncRead for &Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let take = |bytes: &[u8]| {
            let len = bytes.len().min(out.remaining());
            out.put_slice(&bytes[..len]);
            len
        };
        let (read, due) = self.0.pipe.poll_read(context, take);
        self.0.turn(due);
        read.map_err(io::Error::from)
    }
}

impl AsyncWrite for &Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let (written, due) = self.0.pipe.poll_write(context, bytes);
        self.0.turn(due);
        written.map_err(io::Error::from)
    }

    /// Written data needs no flush: the stack sends it as soon as the windows permit.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.close();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_read(context, out)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_shutdown(context)
    }
}
