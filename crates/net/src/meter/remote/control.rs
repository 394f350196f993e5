//! The connection over which two meters arrange a test: a line of JSON for each thing that is said.

use super::plan::Plan;
use super::result::EndResult;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The version of what is said. Two meters of different versions do not understand each other.
pub const PROTOCOL: u32 = 1;

/// The port of a meter that waits for others.
pub const PORT: u16 = 5210;

/// How long an end may take to say what is next.
pub const PATIENCE: Duration = Duration::from_secs(5);

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
        self.stream().set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(self.longest).read_until(b'\n', &mut line);
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => serde_json::from_slice(&line).map_err(|_| io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
            Err(error) => Err(error),
        }
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
