//! The handle of a connection: the common part of streams and associations.

use super::arrivals::Pair;
use super::command::{Command, Commands, Reply};
use super::error::Error;
use super::pipe::{Pipe, TurnDue};
use anabranch_endpoint::{Event, Reason, Report};
use anabranch_host::ConnectionId;
use core::net::SocketAddr;
use std::future::poll_fn;
use std::sync::Arc;

/// A connection in the thread of a stack. When it is dropped, written data is still sent, and then the connection is
/// closed; it is aborted if it is not established or received data was not read.
pub struct Link {
    pub(super) pipe: Arc<Pipe>,
    commands: Arc<Commands>,
    id: ConnectionId,
    pair: Option<Pair>,
}

impl Link {
    pub(super) const fn new(
        pipe: Arc<Pipe>,
        commands: Arc<Commands>,
        id: ConnectionId,
        pair: Option<Pair>,
    ) -> Self {
        Self { pipe, commands, id, pair }
    }

    /// Requests a turn of the engine for this connection, if a turn is due.
    pub(super) fn turn(&self, due: TurnDue) {
        if due {
            // If the stack has stopped, it has ended the pipe, so the result is not needed.
            self.commands.send(Command::Turn(self.id));
        }
    }

    pub(super) const fn id(&self) -> ConnectionId {
        self.id
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.pair.map(|(local, _)| local)
    }

    pub(super) fn remote(&self) -> Option<SocketAddr> {
        self.pair.map(|(_, remote)| remote)
    }

    pub(super) async fn opened(&self) -> Result<(), Error> {
        poll_fn(|context| self.pipe.poll_opened(context)).await
    }

    pub(super) async fn ended(&self) -> Reason {
        poll_fn(|context| self.pipe.poll_ended(context)).await
    }

    pub(super) async fn event(&self) -> Option<Event> {
        poll_fn(|context| self.pipe.poll_event(context)).await
    }

    pub(super) fn close(&self) {
        self.turn(self.pipe.close());
    }

    pub(super) fn abort(&self) {
        self.turn(self.pipe.abort());
    }

    pub(super) async fn report(&self) -> Result<Report, Error> {
        let living = match self.pipe.ended() {
            None => self.ask(|reply| Command::Report(self.id, reply)).await?,
            Some(_) => None,
        };
        living.or_else(|| self.pipe.last_report()).ok_or(Error::Stopped)
    }

    pub(super) async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Error> {
        self.commands.ask(command).await
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.turn(self.pipe.abandon());
    }
}

/// The calls that streams and associations have in common.
macro_rules! common {
    ($type:ident) => {
        impl $type {
            /// The identifier, as in the reports of the stack.
            pub const fn id(&self) -> ConnectionId {
                self.0.id()
            }

            /// Local address and port of the first path.
            pub fn local(&self) -> Option<SocketAddr> {
                self.0.local()
            }

            /// Remote address and port of the first path.
            pub fn remote(&self) -> Option<SocketAddr> {
                self.0.remote()
            }

            /// Ends writing: the rest is sent, then the end. [`ended`](Self::ended) waits until the peer has it.
            pub fn close(&self) {
                self.0.close();
            }

            /// Ends the connection at once (RST, `MP_FASTCLOSE`, ABORT); data under way is lost.
            pub fn abort(&self) {
                self.0.abort();
            }

            /// Waits for the end of the connection. [`Reason::Closed`] means that the peer has acknowledged all
            /// written data, and that both sides have closed.
            pub async fn ended(&self) -> Reason {
                self.0.ended().await
            }

            /// Waits for the next event: paths that come up or go down, and events of the protocol. Of more than
            /// 1,024 waiting events, the oldest are dropped. `None` after the end of the connection.
            pub async fn event(&self) -> Option<Event> {
                self.0.event().await
            }

            /// State and counters of the connection and of each path, also after its end.
            ///
            /// # Errors
            ///
            /// [`Error::Stopped`].
            pub async fn report(&self) -> Result<Report, Error> {
                self.0.report().await
            }
        }
    };
}

pub(super) use common;
