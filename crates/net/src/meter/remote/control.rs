//! The control connection of two meters: one line of JSON per message.

use super::plan::Plan;
use super::result::EndResult;
use crate::clock::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The version of the protocol. Two meters need the same version.
pub const PROTOCOL: u32 = 4;

/// The port of a meter server.
pub const PORT: u16 = 5210;

/// Time limit for a message. Long messages may take longer, see [`MIN_BYTES_PER_SECOND`].
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Minimum rate of a message, bytes per second, so that a client that sends single bytes does not block the
/// server.
const MIN_BYTES_PER_SECOND: u64 = 16 << 10;

/// Idle time before a keepalive probe, and between probes; after the given number without an answer the
/// connection is aborted. A test may include an outage of half a minute.
const KEEPALIVE_TIME: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 6;

/// Maximum length of a client's line, bytes: a plan of many flows.
pub const MAX_CLIENT_LINE_BYTES: u64 = 1 << 20;

/// Maximum length of a server's line, bytes: a result with the delays of millions of messages.
pub const MAX_SERVER_LINE_BYTES: u64 = 1 << 30;

/// Maximum number of bytes per read.
const READ_BYTES: usize = 16 << 10;

/// Messages between two meters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// The first message of both ends.
    Hello {
        /// See [`PROTOCOL`].
        protocol: u32,
        /// Version of the program.
        version: String,
        /// Identifier of the machine's present boot; the server sends it only if the client has sent the same identifier:
        /// the ends then share a clock.
        boot: String,
    },
    /// The server refuses, with the reason.
    Refused {
        /// A sentence.
        reason: String,
    },
    /// The client's plan.
    Plan {
        /// Identifies the connections of the test.
        cookie: u64,
        /// The rest.
        plan: Box<Plan>,
    },
    /// The client has to wait for the tests of others.
    Waiting {
        /// Number of tests that run before the client's.
        ahead: usize,
    },
    /// The server listens.
    Ready {
        /// A port for each flow.
        ports: Vec<u16>,
    },
    /// The server listens for associations at the control port; all other flows are connected.
    Listening,
    /// All flows are connected.
    Connected,
    /// Starts the test at both ends.
    Go {
        /// The test's time zero by the monotonic clock of the client's machine, nanoseconds.
        zero_ns: u64,
    },
    /// The client has ended, prematurely if `early`.
    Done {
        /// True if the server has to end the test early, too.
        early: bool,
    },
    /// The result of the server's end.
    Result(Box<EndResult>),
}

impl Message {
    /// The first message that client and server send.
    pub fn hello(boot: String) -> Self {
        Self::Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned(), boot }
    }
}

/// An identifier of the machine and its present boot.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// An address with another port.
pub const fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// Shortens text of the other end for a message, to one line without control characters.
pub fn printable_line(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 300;
    text.chars().take(MAX_SHOWN_CHARS).flat_map(char::escape_debug).collect()
}

/// The connection of two meters.
#[derive(Debug)]
pub struct Control {
    stream: TcpStream,
    /// Maximum length of a line, bytes.
    max_line_bytes: u64,
    /// Received bytes after the last whole line.
    received: Vec<u8>,
    /// Number of these bytes that are known to contain no end of a line.
    searched: usize,
    /// Time since the first byte of an unfinished line arrived.
    unfinished: Option<Clock>,
}

impl Control {
    /// Uses this connection, whose other end sends lines of at most `max_line_bytes` bytes.
    ///
    /// # Errors
    ///
    /// If the connection cannot be configured.
    pub fn new(stream: TcpStream, max_line_bytes: u64) -> io::Result<Self> {
        Self::with_received(stream, max_line_bytes, Vec::new())
    }

    /// Uses this connection; `received` is the first part of the other end's first line.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_received(stream: TcpStream, max_line_bytes: u64, received: Vec<u8>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_TIME)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_TIME)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
        let unfinished = (!received.is_empty()).then(Clock::new);
        Ok(Self { stream, max_line_bytes, received, searched: 0, unfinished })
    }

    /// Returns true if the other end has closed the connection, even if unread data precedes the end.
    pub fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// If the other end has disconnected.
    pub fn send(&self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        (&self.stream).write_all(&line)
    }

    /// Receives the next message of the other end, within a time limit.
    ///
    /// # Errors
    ///
    /// If no message or an invalid one arrives, or the other end has disconnected.
    pub fn receive(&mut self, timeout: Duration) -> io::Result<Message> {
        let waiting = Clock::new();
        loop {
            if let Some(message) = self.next_line() {
                return message;
            }
            let left = self.time_limit(timeout).saturating_sub(waiting.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            self.read_part()?;
        }
    }

    /// A message that has arrived, without waiting; `None` if there is none.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn try_receive(&mut self) -> io::Result<Option<Message>> {
        self.stream.set_nonblocking(true)?;
        let message = self.take_message();
        self.stream.set_nonblocking(false)?;
        message
    }

    fn take_message(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.next_line() {
                return message.map(Some);
            }
            if !self.read_part()? {
                let late = |begun: &Clock| begun.elapsed() >= self.time_limit(REPLY_TIMEOUT);
                if self.unfinished.as_ref().is_some_and(late) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                return Ok(None);
            }
        }
    }

    /// The time limit of the line that is being received.
    fn time_limit(&self, timeout: Duration) -> Duration {
        timeout.saturating_add(Duration::from_secs(self.received.len() as u64 / MIN_BYTES_PER_SECOND))
    }

    /// The next whole line as a message.
    fn next_line(&mut self) -> Option<io::Result<Message>> {
        let rest = self.received.get(self.searched..).unwrap_or_default();
        let Some(end) = rest.iter().position(|&byte| byte == b'\n').map(|at| self.searched + at) else {
            self.searched = self.received.len();
            return None;
        };
        self.searched = 0;
        let message = serde_json::from_slice(&self.received[..end]);
        self.received.drain(..=end);
        self.unfinished = (!self.received.is_empty()).then(Clock::new);
        Some(message.map_err(|_| io::ErrorKind::InvalidData.into()))
    }

    /// Reads the next bytes; false if there are none yet.
    fn read_part(&mut self) -> io::Result<bool> {
        let mut part = [0; READ_BYTES];
        match self.stream.read(&mut part) {
            Ok(0) if self.received.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(0) => {
                self.received.clear();
                self.searched = 0;
                Err(io::ErrorKind::InvalidData.into())
            }
            Ok(len) => {
                self.received.extend_from_slice(&part[..len]);
                self.unfinished.get_or_insert_with(Clock::new);
                let is_whole = part[..len].contains(&b'\n');
                if !is_whole && self.received.len() as u64 >= self.max_line_bytes {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Control, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let other = TcpStream::connect(listener.local_addr().expect("the listener is bound"))
            .expect("the listener accepts");
        let (stream, _) = listener.accept().expect("the connection is accepted");
        (Control::new(stream, MAX_CLIENT_LINE_BYTES).expect("the connection is configured"), other)
    }

    #[test]
    fn line_is_received_in_parts_without_the_next() {
        let (mut control, mut other) = pair();
        let parts: [&[u8]; 3] = [b"\"conn", b"ected\"\n{\"go\":{\"zero", b"_ns\":7}}\n"];
        let writer = std::thread::spawn(move || {
            for part in parts {
                other.write_all(part).expect("the control connection is open");
                std::thread::sleep(Duration::from_millis(20));
            }
            other
        });
        assert!(matches!(control.receive(REPLY_TIMEOUT), Ok(Message::Connected)));
        assert!(matches!(control.receive(REPLY_TIMEOUT), Ok(Message::Go { zero_ns: 7 })));
        let mut other = writer.join().expect("the writer succeeds");
        // A peer that closes within a line has sent no message.
        other.write_all(b"\"conn").expect("the control connection is open");
        drop(other);
        assert_eq!(control.receive(REPLY_TIMEOUT).expect_err("no line").kind(), io::ErrorKind::InvalidData);
        assert_eq!(
            control.receive(REPLY_TIMEOUT).expect_err("the other end has disconnected").kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

    #[test]
    fn unfinished_line_does_not_block_the_reader() {
        let (mut control, mut other) = pair();
        assert!(matches!(control.try_receive(), Ok(None)));
        other.write_all(b"\"conn").expect("the control connection is open");
        assert!(matches!(control.try_receive(), Ok(None)));
        assert!(!control.is_closed());
        other.write_all(b"ected\"\n").expect("the control connection is open");
        assert!(matches!(control.receive(REPLY_TIMEOUT), Ok(Message::Connected)));
        drop(other);
        assert_eq!(
            control.receive(REPLY_TIMEOUT).expect_err("the other end has disconnected").kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert!(control.is_closed());
    }

    #[test]
    fn unreachable_machine_is_detected() {
        let (control, _other) = pair();
        let stream = &control.stream;
        assert!(sockopt::socket_keepalive(stream).expect("the option is readable"));
        assert_eq!(sockopt::tcp_keepidle(stream).expect("the option is readable"), KEEPALIVE_TIME);
        assert_eq!(sockopt::tcp_keepcnt(stream).expect("the option is readable"), KEEPALIVE_PROBES);
    }
}
