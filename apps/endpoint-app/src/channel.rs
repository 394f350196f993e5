//! A connection of any protocol as a stream of bytes.

use anabranch_endpoint::{Reason, Report};
use anabranch_host::ConnectionId;
use anabranch_net::{AssociationStream, Error, Stream};
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// A connection of this stack.
pub enum Channel {
    /// TCP or Multipath TCP.
    Stream(Stream),
    /// SCTP or CMT-SCTP.
    Association(AssociationStream),
}

/// Calls a method of the stream or of the association.
macro_rules! each {
    ($self:ident, $name:ident => $call:expr) => {
        match $self {
            Self::Stream($name) => $call,
            Self::Association(stream) => {
                let $name = stream.association();
                $call
            }
        }
    };
}

impl Channel {
    pub const fn id(&self) -> ConnectionId {
        each!(self, connection => connection.id())
    }

    pub fn remote(&self) -> Option<SocketAddr> {
        each!(self, connection => connection.remote())
    }

    /// Resets the connection.
    pub fn abort(&self) {
        each!(self, connection => connection.abort());
    }

    pub async fn ended(&self) -> Reason {
        each!(self, connection => connection.ended().await)
    }

    /// Returns the counters of the connection. Messages that only mark the end of a direction do not count as data.
    pub async fn report(&self) -> Result<Report, Error> {
        let mut report = each!(self, connection => connection.report().await)?;
        if let Self::Association(stream) = self {
            let end = stream.end_bytes();
            report.written -= end.written;
            report.delivered -= end.delivered;
            // The message that marks the end is the last one, so only data can wait before it.
            report.send_buffer = report.send_buffer.saturating_sub(end.written);
        }
        Ok(report)
    }

    /// Waits for the end of the connection, after both directions have ended. Returns an error if data was lost.
    pub async fn closed(&mut self) -> Result<(), io::Error> {
        // Data that the peer still sends is discarded. An array would be a part of every task, also while it does not wait here.
        let mut unneeded = vec![0; 4096];
        while self.read(&mut unneeded).await? > 0 {}
        match self.ended().await {
            Reason::Closed => Ok(()),
            reason => Err(Error::Ended(reason).into()),
        }
    }
}

impl AsyncRead for Channel {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Stream(stream) => Pin::new(stream).poll_read(context, out),
            Self::Association(stream) => Pin::new(stream).poll_read(context, out),
        }
    }
}

impl AsyncWrite for Channel {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Stream(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Association(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Stream(stream) => Pin::new(stream).poll_flush(context),
            Self::Association(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Stream(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Association(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
