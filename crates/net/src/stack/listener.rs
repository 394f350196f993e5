//! Listeners.

use super::arrivals::Arrivals;
use super::association::Association;
use super::command::{Command, Commands};
use super::error::Error;
use super::link::Link;
use super::stream::Stream;
use anabranch_host::Transport;
use std::future::poll_fn;
use std::sync::Arc;

/// A port that accepts connections. When it is dropped, the port is closed, and connections that were not accepted are
/// aborted.
pub struct Listener {
    pub(super) arrivals: Arc<Arrivals>,
    pub(super) commands: Arc<Commands>,
    pub(super) transport: Transport,
    pub(super) port: u16,
    /// Send buffer of the associations that this listener accepts, bytes.
    pub(super) send_buffer: u64,
}

impl Listener {
    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Waits for a connection of TCP or Multipath TCP.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`], and [`Error::WrongProtocol`] if the listener is for SCTP.
    pub async fn accept(&self) -> Result<Stream, Error> {
        if self.transport != Transport::Tcp {
            return Err(Error::WrongProtocol);
        }
        Ok(Stream(self.next().await?))
    }

    /// Waits for an association.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`], and [`Error::WrongProtocol`] if the listener is for TCP.
    pub async fn accept_association(&self) -> Result<Association, Error> {
        if self.transport != Transport::Sctp {
            return Err(Error::WrongProtocol);
        }
        Ok(Association(self.next().await?, self.send_buffer))
    }

    async fn next(&self) -> Result<Link, Error> {
        let next = poll_fn(|context| {
            let (next, was_full) = self.arrivals.poll_next(context);
            if was_full {
                // If the stack has stopped, it has closed the listener, so the result is not needed.
                self.commands.send(Command::Accept);
            }
            next
        });
        let (pipe, pair) = next.await.ok_or(Error::Stopped)?;
        let id = pipe.id().ok_or(Error::Stopped)?;
        Ok(Link::new(pipe, Arc::clone(&self.commands), id, pair))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.commands.send(Command::StopListening(self.transport, self.port));
        for pipe in self.arrivals.take_all() {
            if pipe.abort()
                && let Some(id) = pipe.id()
            {
                self.commands.send(Command::Turn(id));
            }
        }
    }
}
