//! Associations of SCTP and CMT-SCTP.

use super::command::Command;
use super::error::Error;
use super::link::{Link, common};
use super::pipe::Received;
use anabranch_endpoint::{Event, Reason, Reliability, Report, StreamChange, Write};
use anabranch_host::ConnectionId;
use anabranch_multipath::PathId;
use core::net::SocketAddr;
use std::future::poll_fn;

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Bytes of the message, at least one.
    pub bytes: Vec<u8>,
    /// The stream.
    pub stream: u16,
    /// The payload protocol identifier, which the peer gets with the message.
    pub ppid: u32,
    /// The message may overtake others.
    pub unordered: bool,
    /// The limit on the lifetime or on the transmissions of the message.
    pub reliability: Reliability,
}

impl Message {
    /// An ordered message on stream 0 that is sent until it has arrived.
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, stream: 0, ppid: 0, unordered: false, reliability: Reliability::Full }
    }
}

/// An association of SCTP or CMT-SCTP.
///
/// Sending waits while the send buffer is full, and the receive window closes while messages are not
/// received. Several tasks may send and receive at once. If this value is dropped, sent messages still go
/// out; if messages were not received, the association is aborted.
pub struct Association(pub(super) Link, pub(super) u64);

common!(Association);

impl Association {
    /// Sends a message: returns when there is room for it.
    ///
    /// # Errors
    ///
    /// If the message is empty or larger than the send buffer, if an earlier message named a stream that does
    /// not exist, or if the association has ended.
    pub async fn send(&self, message: Message) -> Result<(), Error> {
        let Message { mut bytes, stream, ppid, unordered, reliability } = message;
        let (len, send_buffer) = (bytes.len() as u64, self.1);
        if len == 0 {
            return Err(Error::EmptyMessage);
        }
        if len > send_buffer {
            return Err(Error::MessageTooLarge { len, send_buffer });
        }
        let how = Write { len, stream, unordered, ppid, reliability };
        poll_fn(|context| {
            let (sent, due) = self.0.pipe.poll_send(context, how, &mut bytes);
            self.0.turn(due);
            sent
        })
        .await
    }

    /// Waits for the next message, or a part of one ([`Received::more`]); `None` after the peer's last message.
    ///
    /// # Errors
    ///
    /// If the association did not end in order.
    pub async fn receive(&self) -> Result<Option<Received>, Error> {
        poll_fn(|context| {
            let (received, due) = self.0.pipe.poll_receive(context);
            self.0.turn(due);
            received
        })
        .await
    }

    /// Bytes of all messages that were sent over this handle.
    pub fn sent_bytes(&self) -> u64 {
        self.0.pipe.sent_bytes()
    }

    /// The number of [sent bytes](Self::sent_bytes), from the first one on, whose messages the peer has acknowledged or
    /// that were abandoned.
    ///
    /// # Errors
    ///
    /// If the association did not end in order.
    pub async fn released_bytes(&self) -> Result<u64, Error> {
        let released = self.0.ask(|reply| Command::Released(self.id(), reply)).await;
        match (released, self.0.pipe.ended()) {
            (Ok(Some(bytes)), _) => Ok(bytes),
            (_, Some(Reason::Closed)) => Ok(self.sent_bytes()),
            (_, Some(reason)) => Err(Error::Ended(reason)),
            (_, None) => Err(Error::Stopped),
        }
    }

    /// Makes a path the primary path (RFC 9260 §11.1.5).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchPath`] if there is no such path, or it is not active.
    pub async fn set_primary(&self, path: PathId) -> Result<(), Error> {
        self.0.ask(|reply| Command::SetPrimary(self.id(), path, reply)).await?
    }

    /// Requests a change of the streams (RFC 6525). An event reports the outcome. Returns false if the association or the
    /// peer lacks the extension, or a stream does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub async fn change_streams(&self, change: StreamChange) -> Result<bool, Error> {
        self.0.ask(|reply| Command::ChangeStreams(self.id(), change, reply)).await
    }
}
