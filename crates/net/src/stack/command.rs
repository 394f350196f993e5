//! Commands of handles to the thread of a stack.

use super::arrivals::{Arrivals, Pair};
use super::error::Error;
use super::pipe::Pipe;
use super::queue::Queue;
use super::report::ConnectionReport;
use crate::device::Device;
use anabranch_endpoint::{Address, Report, StreamChange};
use anabranch_host::{ConnectionId, Listening, Protocol, Transport};
use anabranch_multipath::PathId;
use core::net::IpAddr;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Treatment of open connections when a stack ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ends writing on all connections and waits for their ends, at most for this time. Then it aborts the rest.
    Drain(Duration),
    /// Aborts all connections at once.
    Abort,
}

/// The end of a stack.
#[derive(Debug)]
pub struct Stopped {
    /// Number of connections that were aborted.
    pub aborted: usize,
    /// The result of writing the capture.
    pub capture: io::Result<()>,
    /// The result of writing the recording.
    pub recording: io::Result<()>,
}

/// The answer to a command.
pub type Reply<T> = oneshot::Sender<T>;

/// A command. Errors of sending its reply are ignored, because the caller no longer waits.
pub enum Command {
    Connect {
        protocol: Box<Protocol>,
        remote: (Vec<IpAddr>, u16),
        pipe: Arc<Pipe>,
        reply: Reply<Result<(ConnectionId, Option<Pair>), Error>>,
    },
    Listen {
        listening: Box<Listening>,
        arrivals: Arc<Arrivals>,
        reply: Reply<Result<(), Error>>,
    },
    StopListening(Transport, u16),
    /// A listener has room again.
    Accept,
    /// A handle has written, read or closed.
    Turn(ConnectionId),
    AddDevice(Box<dyn Device>, Vec<Address>),
    UseAddress(IpAddr, bool, Reply<Result<(), Error>>),
    SetPrimary(ConnectionId, PathId, Reply<Result<(), Error>>),
    SetBackup(ConnectionId, PathId, bool, Reply<Result<(), Error>>),
    ChangeStreams(ConnectionId, StreamChange, Reply<bool>),
    Report(ConnectionId, Reply<Option<Report>>),
    /// The offset below which all written bytes are acknowledged or abandoned.
    Released(ConnectionId, Reply<Option<u64>>),
    Reports(Reply<Vec<ConnectionReport>>),
    Stop(Stop, Option<Reply<Stopped>>),
}

/// The access of all handles to the thread. When the last handle is dropped, the stack drains and ends.
pub struct Commands {
    queue: Arc<Queue<Command>>,
}

/// Time for which a stack without handles finishes its connections.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

impl Commands {
    /// Sends to this queue.
    pub fn new(queue: Arc<Queue<Command>>) -> Arc<Self> {
        Arc::new(Self { queue })
    }

    /// Sends a command. Returns false if the stack has stopped.
    pub fn send(&self, command: Command) -> bool {
        self.queue.send(command).is_ok()
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        if !self.send(command(reply)) {
            return Err(Error::Stopped);
        }
        answer.await.map_err(|_| Error::Stopped)
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.send(Command::Stop(Stop::Drain(DRAIN_TIMEOUT), None));
    }
}
