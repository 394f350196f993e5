//! An association as a stream of bytes.

use super::association::Association;
use super::error::Error;
use super::pipe::Received;
use anabranch_endpoint::Write;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Longest message of the stream, bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// Payload protocol identifier of the message that ends a direction: `AnEn` in ASCII.
const END_PPID: u32 = 0x416e_456e;
/// Content of that message, because SCTP has no empty messages.
const END_MESSAGE: [u8; 1] = [0];

/// The end of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteEnd {
    /// The association is closed: SCTP has no half-closed state, so reading ends, too. For transfers in one direction; the
    /// peer may be any SCTP program.
    Close,
    /// A message with a reserved identifier is sent, and reading goes on. The association is closed when both ends
    /// have sent it. The peer has to be an [`AssociationStream`].
    Message,
}

/// An association as a stream of bytes: ordered messages of at most 16 KiB on stream 0. Received messages are read in
/// the order of their arrival, whatever the peer is.
pub struct AssociationStream {
    association: Association,
    end: WriteEnd,
    unread: Vec<u8>,
    /// Number of bytes of `unread` that were read.
    read: usize,
    sent_end: bool,
    received_end: bool,
    /// Bytes of the messages that mark the end of the data in each direction.
    end_bytes: EndBytes,
}

/// Bytes of messages that carry no data of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndBytes {
    /// Written to the association.
    pub written: u64,
    /// Delivered by the association.
    pub delivered: u64,
}

impl AssociationStream {
    /// A stream over this association.
    pub const fn new(association: Association, end: WriteEnd) -> Self {
        let end_bytes = EndBytes { written: 0, delivered: 0 };
        Self {
            association,
            end,
            unread: Vec::new(),
            read: 0,
            sent_end: false,
            received_end: false,
            end_bytes,
        }
    }

    /// The bytes that reports of the association count in addition to those of the stream.
    pub const fn end_bytes(&self) -> EndBytes {
        self.end_bytes
    }

    /// The association.
    pub const fn association(&self) -> &Association {
        &self.association
    }

    fn close_if_over(&self) {
        if self.sent_end && self.received_end {
            self.association.close();
        }
    }

    fn poll_message(&self, context: &Context<'_>, ppid: u32, bytes: &[u8]) -> Poll<Result<(), Error>> {
        let mut message = bytes.to_vec();
        let how = Write { ppid, ..Write::bytes(bytes.len() as u64) };
        let (sent, due) = self.association.0.pipe.poll_send(context, how, &mut message);
        self.association.0.turn(due);
        sent
    }
}

impl AsyncRead for AssociationStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.read == self.unread.len() {
            if self.received_end {
                return Poll::Ready(Ok(()));
            }
            let (received, due) = self.association.0.pipe.poll_receive(context);
            self.association.0.turn(due);
            match received {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(Received { bytes, ppid, .. }))) if ppid != END_PPID => {
                    (self.unread, self.read) = (bytes, 0);
                }
                Poll::Ready(Ok(end)) => {
                    self.end_bytes.delivered = end.map_or(0, |end| end.bytes.len() as u64);
                    self.received_end = true;
                    self.close_if_over();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            }
        }
        let len = out.remaining().min(self.unread.len() - self.read);
        out.put_slice(&self.unread[self.read..][..len]);
        self.read += len;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AssociationStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.sent_end {
            return Poll::Ready(Err(Error::WriteEnded.into()));
        }
        let most = MAX_MESSAGE_BYTES.min(usize::try_from(self.association.1).unwrap_or(usize::MAX));
        let len = bytes.len().min(most);
        if len == 0 {
            return Poll::Ready(Ok(0));
        }
        let sent = self.poll_message(context, 0, &bytes[..len]);
        sent.map(|sent| sent.map(|()| len).map_err(io::Error::from))
    }

    /// Messages need no flush: the stack sends them as soon as the windows permit.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.sent_end {
            return Poll::Ready(Ok(()));
        }
        if self.end == WriteEnd::Message {
            match self.poll_message(context, END_PPID, &END_MESSAGE) {
                Poll::Pending => return Poll::Pending,
                // A peer that is not an [`AssociationStream`] has closed the association.
                Poll::Ready(Err(_)) if self.received_end => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Ready(Ok(())) => self.end_bytes.written = END_MESSAGE.len() as u64,
            }
        } else {
            self.association.close();
        }
        self.sent_end = true;
        self.close_if_over();
        Poll::Ready(Ok(()))
    }
}
