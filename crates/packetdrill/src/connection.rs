//! A connection of the machine: its bytes, and its state as a socket shows it.

use crate::Errno;
use anabranch_endpoint::{Bytes, Event, Reason};
use std::collections::VecDeque;

/// State of a connection, except its endpoint, which is in the host.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub bytes: Bytes,
    /// Ends of the writes that may still be sent or retransmitted, as offsets of the stream.
    pub writes: VecDeque<u64>,
    /// True once the handshake is complete.
    pub connected: bool,
    /// True once the peer has finished sending.
    pub finished: bool,
    /// The reason of the end.
    pub closed: Option<Reason>,
    /// An error that no call has returned.
    pub error: Option<Errno>,
    /// True once the socket of the connection is closed.
    pub orphan: bool,
}

impl Connection {
    /// Records an event.
    pub fn note(&mut self, event: Event) {
        match event {
            Event::Connected => self.connected = true,
            Event::Finished => self.finished = true,
            Event::Closed(reason) => {
                self.closed = Some(reason);
                self.error = errno_of(reason, self.connected);
            }
            _ => {}
        }
    }

    /// Forgets the ends of writes that will not be sent again.
    pub fn release(&mut self, released: u64) {
        while self.writes.front().is_some_and(|end| *end <= released) {
            self.writes.pop_front();
        }
    }
}

/// The error that a socket reports after the end of its connection.
fn errno_of(reason: Reason, connected: bool) -> Option<Errno> {
    match reason {
        Reason::Closed | Reason::Aborted => None,
        Reason::Reset if connected => Some(libc::ECONNRESET),
        Reason::Reset | Reason::Refused => Some(libc::ECONNREFUSED),
        Reason::TimedOut => Some(libc::ETIMEDOUT),
        Reason::Unreachable => Some(libc::EHOSTUNREACH),
    }
}
