//! A restart without a refused connection. On SIGHUP the program is started again, possibly in another version or with another
//! file. The new process takes over the listeners, with the connections in their queues. The old process serves its open
//! connections to their end.
//!
//! The new process has one end of a pair of sockets as its standard input. It receives one listening socket a message, and then
//! a byte that marks the end. It answers with a byte when it listens.

use super::error::Error;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use socket2::Socket;
use std::ffi::OsString;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Says to the new process that its standard input is such a socket.
const VARIABLE: &str = "ANABRANCH_PROXY_HANDOVER";
/// A socket comes with this byte; these were all; the new process listens.
const SOCKET: u8 = b'S';
const ALL: u8 = b'A';
const READY: u8 = b'R';
/// How long the new process may take to begin.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether this process takes the place of an earlier one.
pub fn takes_over() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Sockets that an earlier process listened with.
pub struct Inherited {
    /// Sockets that have not been taken yet.
    pub sockets: Vec<Socket>,
    channel: UnixStream,
}

impl Inherited {
    /// The sockets of the earlier process, if there is one.
    ///
    /// # Errors
    /// If it breaks off.
    pub fn receive() -> Result<Option<Self>, Error> {
        if !takes_over() {
            return Ok(None);
        }
        let receiving = || {
            let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
            channel.set_read_timeout(Some(START_TIMEOUT))?;
            Ok(Self { sockets: receive_all(&channel)?, channel })
        };
        receiving().map(Some).map_err(|error: io::Error| {
            Error::Refused(format!("{VARIABLE} is set, but no process hands over its listeners: {error}"))
        })
    }

    /// Tells the earlier process that this one listens.
    pub fn ready(mut self) {
        // If it has gone meanwhile, this one is alone, and goes on.
        drop(self.channel.write_all(&[READY]));
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

/// Starts the program again and passes the listening sockets to it; returns the process id.
///
/// # Errors
///
/// If the new process does not start. Nothing has changed then.
pub async fn pass_on(sockets: Vec<OwnedFd>) -> io::Result<u32> {
    let passing = move || {
        let mut arguments = std::env::args_os();
        let program = arguments.next().ok_or(ErrorKind::NotFound)?;
        start(program, arguments.collect(), &sockets)
    };
    tokio::task::spawn_blocking(passing).await.map_err(io::Error::other)?
}

fn start(program: OsString, arguments: Vec<OsString>, sockets: &[OwnedFd]) -> io::Result<u32> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(START_TIMEOUT))?;
    ours.set_write_timeout(Some(START_TIMEOUT))?;
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, "1").stdin(Stdio::from(OwnedFd::from(theirs)));
    let mut child = command.spawn()?;
    // Closes the other end of the pair here, so that its end is noticed.
    drop(command);
    let begun = give(&ours, sockets).and_then(|()| await_ready(ours)).map_err(plainly);
    if begun.is_err() {
        // It may have ended by itself.
        drop(child.kill());
        child.wait()?;
    }
    begun.map(|()| child.id())
}

fn give(channel: &UnixStream, sockets: &[OwnedFd]) -> io::Result<()> {
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

fn await_ready(mut channel: UnixStream) -> io::Result<()> {
    let mut byte = [0];
    channel.read_exact(&mut byte)
}

/// The error of a start, in plain words. A process that ends at once may do so before it has read its sockets.
fn plainly(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            io::Error::new(ErrorKind::BrokenPipe, "it ended")
        }
        ErrorKind::WouldBlock => io::Error::new(ErrorKind::TimedOut, "it did not begin in time"),
        _ => error,
    }
}
