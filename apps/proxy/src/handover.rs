//! Restart without refusing connections. On SIGHUP, the program starts a new process, possibly with a new version or a new
//! configuration file. The new process takes over the listeners, with the connections in their backlogs. The old process
//! serves its open connections until they end.
//!
//! The standard input of the new process is one end of a socket pair. The old process sends one listening socket per
//! message, then a byte that marks the end. When the new process is ready, it answers with a byte. Then the old process
//! stops to accept and closes its end, and only then the new one begins: a client of the converter that repeats its
//! request with a cookie would otherwise reach both processes in turn. Meanwhile, connections wait in the backlogs.

use super::error::Error;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, kill_process};
use socket2::Socket;
use std::ffi::OsString;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Environment variable of the new process: if it is set, the standard input is the socket described above.
const VARIABLE: &str = "ANABRANCH_PROXY_HANDOVER";
/// Bytes of the messages: a listening socket is attached; all sockets have been sent; the new process is ready.
const SOCKET: u8 = b'S';
const ALL: u8 = b'A';
const READY: u8 = b'R';
/// Maximum time for the start of the new process.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// True if this process replaces an earlier one.
pub fn replaces_earlier_process() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Listening sockets of an earlier process.
pub struct Inherited {
    /// Sockets that no listener of this process uses yet.
    pub sockets: Vec<Socket>,
    channel: UnixStream,
}

impl Inherited {
    /// Receives the sockets of the earlier process; returns `None` if this process replaces no other.
    ///
    /// # Errors
    /// If the transfer fails.
    pub fn receive() -> Result<Option<Self>, Error> {
        if !replaces_earlier_process() {
            return Ok(None);
        }
        let receiving = || {
            let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
            channel.set_read_timeout(Some(START_TIMEOUT))?;
            Ok(Self { sockets: receive_all(&channel)?, channel })
        };
        receiving().map(Some).map_err(|error: io::Error| {
            Error::Refused(format!(
                "{VARIABLE} is set, but receiving the listeners failed: {error}; unset the variable"
            ))
        })
    }

    /// Notifies the earlier process that this one is ready, and waits until that process accepts no more connections.
    pub async fn take_over(self) {
        let mut channel = self.channel;
        let waiting = move || {
            // Ignore errors: if the earlier process has ended or does not answer in time, this one continues without it.
            if channel.write_all(&[READY]).is_ok() {
                while channel.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::Interrupted) {}
            }
        };
        drop(tokio::task::spawn_blocking(waiting).await);
    }
}

/// A new process that is ready, and accepts connections after [`let_accept`](Self::let_accept), or if this process ends.
pub struct Successor {
    /// Process id. It stays that of the new process while this process runs, which never waits for its end.
    pub process: u32,
    channel: Option<UnixStream>,
}

impl Successor {
    /// Lets the new process accept connections.
    pub fn let_accept(&mut self) {
        self.channel = None;
    }

    /// Sends a signal to the new process.
    pub fn signal(&self, signal: Signal) {
        // Ignore errors: the process may already have ended.
        if let Some(process) = i32::try_from(self.process).ok().and_then(Pid::from_raw) {
            kill_process(process, signal).unwrap_or_default();
        }
    }
}

fn receive_all(channel: &UnixStream) -> io::Result<Vec<Socket>> {
    let mut sockets = Vec::new();
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let (mut ancillary, mut byte) = (RecvAncillaryBuffer::new(&mut space), [0]);
        let received =
            recvmsg(channel, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        match (received.bytes, byte[0]) {
            (1, SOCKET) => {
                for message in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                        sockets.extend(descriptors.map(Socket::from));
                    }
                }
            }
            (1, ALL) => return Ok(sockets),
            _ => return Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Starts the program again, sends the listening sockets to the new process, and waits until that is ready.
///
/// # Errors
///
/// If the new process does not start. The old process then keeps its listeners.
pub async fn start_successor(sockets: Vec<OwnedFd>) -> io::Result<Successor> {
    let passing = move || {
        let mut arguments = std::env::args_os();
        let program = arguments.next().ok_or(ErrorKind::NotFound)?;
        start(program, arguments.collect(), &sockets)
    };
    tokio::task::spawn_blocking(passing).await.map_err(io::Error::other)?
}

fn start(program: OsString, arguments: Vec<OsString>, sockets: &[OwnedFd]) -> io::Result<Successor> {
    let (parent_end, child_end) = UnixStream::pair()?;
    parent_end.set_read_timeout(Some(START_TIMEOUT))?;
    parent_end.set_write_timeout(Some(START_TIMEOUT))?;
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, "1").stdin(Stdio::from(OwnedFd::from(child_end)));
    let mut child = command.spawn()?;
    // This process closes its copy of the child's end, so that reading fails when the child ends.
    drop(command);
    let started =
        send_all(&parent_end, sockets).and_then(|()| await_ready(&parent_end)).map_err(describe_start_error);
    if started.is_err() {
        // Ignore errors: the process may already have ended.
        drop(child.kill());
        child.wait()?;
    }
    started.map(|()| Successor { process: child.id(), channel: Some(parent_end) })
}

fn send_all(channel: &UnixStream, sockets: &[OwnedFd]) -> io::Result<()> {
    for socket in sockets {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [socket.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(channel, &[IoSlice::new(&[SOCKET])], &mut ancillary, SendFlags::NOSIGNAL)?;
    }
    let mut channel = channel;
    channel.write_all(&[ALL])
}

fn await_ready(mut channel: &UnixStream) -> io::Result<()> {
    let mut byte = [0];
    channel.read_exact(&mut byte)
}

/// Describes the error of a start: a broken channel means that the new process ended before it had read its sockets.
fn describe_start_error(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            io::Error::new(ErrorKind::BrokenPipe, "the new process ended")
        }
        ErrorKind::WouldBlock => io::Error::new(ErrorKind::TimedOut, "the new process was not ready in time"),
        _ => error,
    }
}
