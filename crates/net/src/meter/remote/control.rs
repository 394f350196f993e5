//! The control connection of two meters: one line of JSON per message.

use super::plan::Plan;
use super::result::EndResult;
use crate::clock::Clock;
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The version of the protocol. Two meters need the same version.
pub const PROTOCOL: u32 = 2;

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
        /// Identifier of the machine's present boot: ends with the same one share a clock.
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
    /// The server listens.
    Ready {
        /// A port for each flow.
        ports: Vec<u16>,
    },
    /// All flows are connected.
    Connected,
    /// Starts the test at both ends.
    Go {
        /// The test's time zero by the monotonic clock of the client's machine, nanoseconds.
        zero_ns: u64,
    },
    /// The client has ended, prematurely if `early`.
    Done {
        /// The server has to end as well.
        early: bool,
    },
    /// The result of the server's end.
    Result(Box<EndResult>),
}

impl Message {
    /// The first message of both.
    pub fn hello() -> Self {
        Self::Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned(), boot: boot() }
    }
}

/// An identifier of the machine and its present boot.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The same address with another port.
pub const fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// The connection of two meters.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<TcpStream>,
    longest: u64,
}

impl Control {
    /// Uses this connection, whose other end sends lines of at most `longest` bytes.
    ///
    /// # Errors
    ///
    /// If the connection cannot be configured.
    pub fn new(stream: TcpStream, longest: u64) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_TIME)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_TIME)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
        Ok(Self { reader: BufReader::new(stream), longest })
    }

    fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// If it has gone.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.stream().peer_addr()
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.stream().local_addr()
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// If the other end has gone.
    pub fn send(&self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream().write_all(&line)
    }

    /// Receives the next message of the other end, within a time limit.
    ///
    /// # Errors
    ///
    /// If no message or an invalid one arrives, or the other end has gone.
    pub fn receive(&mut self, patience: Duration) -> io::Result<Message> {
        let line = self.line(patience)?;
        serde_json::from_slice(&line).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// The next line, or its beginning if the other end closed or exceeded the limit.
    fn line(&mut self, patience: Duration) -> io::Result<Vec<u8>> {
        let begun = Clock::new();
        let mut line = Vec::new();
        while (line.len() as u64) < self.longest {
            let earned = Duration::from_secs(line.len() as u64 / MIN_BYTES_PER_SECOND);
            let left =
                patience.saturating_add(earned).saturating_sub(Duration::from_nanos(begun.now().as_nanos()));
            self.stream().set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let came = match self.reader.fill_buf() {
                Ok([]) if line.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(came) => came,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            };
            let end = came.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(came.len());
            line.extend_from_slice(&came[..taken]);
            self.reader.consume(taken);
            if end.is_some() || taken == 0 {
                break;
            }
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(line)
    }

    /// A message that has arrived, without waiting; `None` if there is none.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn try_receive(&mut self) -> io::Result<Option<Message>> {
        if self.reader.buffer().is_empty() {
            self.stream().set_nonblocking(true)?;
            let peeked = self.stream().peek(&mut [0]);
            self.stream().set_nonblocking(false)?;
            match peeked {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        self.receive(REPLY_TIMEOUT).map(Some)
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
        assert_eq!(control.receive(REPLY_TIMEOUT).expect_err("gone").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn unreachable_machine_is_detected() {
        let (control, _other) = pair();
        let stream = control.stream();
        assert!(sockopt::socket_keepalive(stream).expect("the option is readable"));
        assert_eq!(sockopt::tcp_keepidle(stream).expect("the option is readable"), KEEPALIVE_TIME);
        assert_eq!(sockopt::tcp_keepcnt(stream).expect("the option is readable"), KEEPALIVE_PROBES);
    }
}
