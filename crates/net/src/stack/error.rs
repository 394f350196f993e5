//! Reasons why a call of the stack fails.

use anabranch_endpoint::Reason;
use anabranch_host::HostError;
use core::fmt;
use std::io;

/// The reason why a call of a [`Stack`](crate::Stack) or of a connection failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The stack has stopped.
    Stopped,
    /// The connection or the listener cannot be created.
    Host(HostError),
    /// The connection has ended for this reason.
    Ended(Reason),
    /// This side has already ended writing.
    WriteEnded,
    /// A message has no bytes; SCTP has no such messages.
    EmptyMessage,
    /// A message is larger than the send buffer.
    MessageTooLarge {
        /// Length of the message, bytes.
        len: u64,
        /// Size of the send buffer, bytes.
        send_buffer: u64,
    },
    /// The association does not have this stream.
    NoSuchStream {
        /// The stream.
        stream: u16,
        /// Number of the association's outgoing streams.
        streams: u16,
    },
    /// The path does not exist, or the protocol does not support the command for it.
    NoSuchPath,
    /// The protocol is not the one of the call: [`Stream`](crate::Stream) is for TCP and Multipath TCP,
    /// [`Association`](crate::Association) for SCTP.
    WrongProtocol,
    /// No device has the address.
    NoSuchAddress,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the stack has stopped"),
            Self::Host(error) => error.fmt(f),
            Self::Ended(reason) => f.write_str(match reason {
                Reason::Closed => "the connection is closed",
                Reason::Reset => "the peer reset the connection",
                Reason::Aborted => "the connection was aborted",
                Reason::TimedOut => "the peer did not answer in time",
                Reason::Unreachable => "the peer is unreachable",
                Reason::Refused => "the peer refused the connection",
            }),
            Self::WriteEnded => f.write_str("this side has ended writing"),
            Self::EmptyMessage => f.write_str("a message needs at least one byte"),
            Self::MessageTooLarge { len, send_buffer } => {
                write!(f, "a message of {len} bytes does not fit the send buffer of {send_buffer} bytes")
            }
            Self::NoSuchStream { stream, streams } => {
                write!(f, "stream {stream} does not exist: the association has {streams} outgoing streams")
            }
            Self::NoSuchPath => {
                f.write_str("the connection has no such path, or its protocol lacks the command")
            }
            Self::WrongProtocol => f.write_str("a stream needs TCP or Multipath TCP, an association SCTP"),
            Self::NoSuchAddress => f.write_str("no device has the address"),
        }
    }
}

impl core::error::Error for Error {}

impl From<HostError> for Error {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Stopped => io::ErrorKind::NotConnected,
            Error::Host(HostError::PortInUse(_)) => io::ErrorKind::AddrInUse,
            Error::Host(HostError::NoAddress | HostError::NoPort) => io::ErrorKind::AddrNotAvailable,
            Error::Ended(Reason::Reset) => io::ErrorKind::ConnectionReset,
            Error::Ended(Reason::Aborted) => io::ErrorKind::ConnectionAborted,
            Error::Ended(Reason::TimedOut) => io::ErrorKind::TimedOut,
            Error::Ended(Reason::Unreachable) => io::ErrorKind::HostUnreachable,
            Error::Ended(Reason::Refused) => io::ErrorKind::ConnectionRefused,
            Error::WriteEnded | Error::Ended(Reason::Closed) => io::ErrorKind::BrokenPipe,
            Error::EmptyMessage | Error::MessageTooLarge { .. } | Error::NoSuchStream { .. } => {
                io::ErrorKind::InvalidInput
            }
            Error::Host(_) | Error::NoSuchPath | Error::WrongProtocol | Error::NoSuchAddress => {
                io::ErrorKind::Other
            }
        };
        Self::new(kind, error)
    }
}
