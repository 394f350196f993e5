//! The connection over which two meters arrange a test: a line of JSON for each thing that is said.

use super::plan::Plan;
use super::result::EndResult;
use crate::clock::Clock;
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The version of what is said. Two meters of different versions do not understand each other.
pub const PROTOCOL: u32 = 2;

/// The port of a meter that waits for others.
pub const PORT: u16 = 5210;

/// How long an end may take to say what is next. What is long may take longer, see [`LEAST_RATE`].
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How fast an end has to say something, bytes a second: whoever sends a byte now and then does not keep a meter from others.
const LEAST_RATE: u64 = 16 << 10;

/// After so long a silence an end asks whether the machine of the other is still there, and again after the same time; so
/// often without an answer it gives up. A test may see an outage of half a minute.
const SILENCE: Duration = Duration::from_secs(10);
const QUESTIONS: u32 = 6;

/// The longest line of a client, bytes: a plan of many flows.
pub const LONGEST_OF_CLIENT: u64 = 1 << 20;

/// The longest line of a server, bytes: a result with the delays of millions of messages.
pub const LONGEST_OF_SERVER: u64 = 1 << 30;

/// What two meters say to each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// Either begins with it.
    Hello {
        /// See [`PROTOCOL`].
        protocol: u32,
        /// Version of the program.
        version: String,
        /// The machine since it was started: ends of the same have one clock.
        boot: String,
    },
    /// The server will not, and says why.
    Refused {
        /// A sentence.
        reason: String,
    },
    /// The client says what is to be done.
    Plan {
        /// By which connections of the test are known.
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
    /// Both begin.
    Go {
        /// The test's time zero by the monotonic clock of the client's machine, nanoseconds.
        zero_ns: u64,
    },
    /// The client has ended, before the time if `early`.
    Done {
        /// The server is to end as well.
        early: bool,
    },
    /// What the server's end saw.
    Result(Box<EndResult>),
}

impl Message {
    /// What either begins with.
    pub fn hello() -> Self {
        Self::Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned(), boot: boot() }
    }
}

/// What tells machines apart, and one from itself before it was started again.
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
    /// Over this connection, whose other end says lines of at most `longest` bytes.
    ///
    /// # Errors
    /// If the connection cannot be set up.
    pub fn new(stream: TcpStream, longest: u64) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, SILENCE)?;
        sockopt::set_tcp_keepintvl(&stream, SILENCE)?;
        sockopt::set_tcp_keepcnt(&stream, QUESTIONS)?;
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
    /// If the connection has gone.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.stream().local_addr()
    }

    /// Says something.
    ///
    /// # Errors
    /// If the other end has gone.
    pub fn say(&self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream().write_all(&line)
    }

    /// What the other end says next, within a time.
    ///
    /// # Errors
    /// If it says nothing, something else than a meter would, or has gone.
    pub fn hear(&mut self, patience: Duration) -> io::Result<Message> {
        let line = self.line(patience)?;
        serde_json::from_slice(&line).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// The next line, or what came of it before the other end closed or said too much.
    fn line(&mut self, patience: Duration) -> io::Result<Vec<u8>> {
        let begun = Clock::new();
        let mut line = Vec::new();
        while (line.len() as u64) < self.longest {
            let earned = Duration::from_secs(line.len() as u64 / LEAST_RATE);
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

    /// What the other end has said meanwhile, without waiting; `None` if nothing.
    ///
    /// # Errors
    /// As [`hear`](Self::hear).
    pub fn overhear(&mut self) -> io::Result<Option<Message>> {
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
        self.hear(PATIENCE).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Control, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let other = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (stream, _) = listener.accept().expect("it comes");
        (Control::new(stream, LONGEST_OF_CLIENT).expect("it is set up"), other)
    }

    #[test]
    fn a_line_is_heard_in_any_parts_and_what_follows_it_stays() {
        let (mut control, mut other) = pair();
        let parts: [&[u8]; 3] = [b"\"conn", b"ected\"\n{\"go\":{\"zero", b"_ns\":7}}\n"];
        let writer = std::thread::spawn(move || {
            for part in parts {
                other.write_all(part).expect("it hears");
                std::thread::sleep(Duration::from_millis(20));
            }
            other
        });
        assert!(matches!(control.hear(PATIENCE), Ok(Message::Connected)));
        assert!(matches!(control.hear(PATIENCE), Ok(Message::Go { zero_ns: 7 })));
        let mut other = writer.join().expect("it wrote");
        // One that goes in the middle of a line has said nothing.
        other.write_all(b"\"conn").expect("it hears");
        drop(other);
        assert_eq!(control.hear(PATIENCE).expect_err("no line").kind(), io::ErrorKind::InvalidData);
        assert_eq!(control.hear(PATIENCE).expect_err("gone").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_machine_that_has_vanished_is_noticed() {
        let (control, _other) = pair();
        let stream = control.stream();
        assert!(sockopt::socket_keepalive(stream).expect("it has it"));
        assert_eq!(sockopt::tcp_keepidle(stream).expect("it has it"), SILENCE);
        assert_eq!(sockopt::tcp_keepcnt(stream).expect("it has it"), QUESTIONS);
    }
}
