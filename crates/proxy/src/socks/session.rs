//! A client's way through the protocol, up to what it wants.

use super::wire::{self, Command, Malformed, Parsed, Reply, Target, method};
use crate::login::{Logins, Shown, Tried};
use crate::stream::{read_some, write_all};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::fmt;
use std::io;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// What a client wants, and what it has sent beyond.
#[derive(Debug)]
pub struct Request {
    /// What is to be done.
    pub command: Command,
    /// With whom.
    pub target: Target,
    /// What the client sent already to be handed on.
    pub first: Vec<u8>,
}

/// Why a client got no further.
#[derive(Debug)]
pub enum Refusal {
    /// It speaks otherwise.
    Malformed(Malformed),
    /// It offers no method of log-in that is accepted here.
    NoMethod,
    /// Name or password is wrong, for so many times in a row.
    WrongPassword(u32),
    /// Its clock shows another time: ours less its, seconds.
    Clock(i64),
    /// Others guessed passwords from there, and its turn would not come in time.
    TooManyGuesses,
    /// Its connection broke, or ended.
    Broken(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::NoMethod => f.write_str("offers no way to log in that is accepted here"),
            Self::WrongPassword(times) => write!(f, "wrong name or password, {times} in a row"),
            Self::Clock(seconds) => write!(
                f,
                "its clock is {} s {} the one here: set both right",
                seconds.unsigned_abs(),
                if *seconds > 0 { "behind" } else { "before" },
            ),
            Self::TooManyGuesses => f.write_str("has to wait: too many wrong passwords came from there"),
            Self::Broken(error) => write!(f, "went before it said what it wants: {error}"),
        }
    }
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// A stream of messages, and what was read of it and not looked at.
pub struct Session<'a> {
    stream: &'a TcpStream,
    /// What follows the last message.
    pub bytes: Vec<u8>,
}

/// Greets a client, has it log in if there are users, and takes its request.
///
/// # Errors
/// Why it got no further; it has been told, if the protocol has words for that.
pub async fn accept(
    stream: &TcpStream,
    peer: IpAddr,
    logins: Option<&Logins>,
    deadline: Instant,
) -> Result<Request, Refusal> {
    let mut session = Session::new(stream);
    let offered = session.message(wire::greeting).await?;
    let accepted: &[u8] = if logins.is_some() { &[method::PROOF, method::PASSWORD] } else { &[method::NONE] };
    let Some(&method) = accepted.iter().find(|method| offered.contains(method)) else {
        write_all(stream, &wire::choice(method::UNACCEPTABLE)).await?;
        return Err(Refusal::NoMethod);
    };
    write_all(stream, &wire::choice(method)).await?;
    if let Some(logins) = logins {
        let shown = if method == method::PROOF {
            Shown::Proof(session.message(wire::proof).await?)
        } else {
            let (name, password) = session.message(wire::login).await?;
            Shown::Password(name, password)
        };
        let tried = logins.attempt(peer, &shown, deadline).await;
        write_all(stream, &wire::verdict(tried == Tried::Right)).await?;
        match tried {
            Tried::Right => {}
            Tried::Wrong(times) => return Err(Refusal::WrongPassword(times)),
            Tried::Clock(seconds) => return Err(Refusal::Clock(seconds)),
            Tried::TooMany => return Err(Refusal::TooManyGuesses),
        }
    }
    match session.message(wire::request).await {
        Ok((command, target)) => Ok(Request { command, target, first: session.bytes }),
        Err(Refusal::Malformed(malformed)) => {
            let reply = match malformed {
                Malformed::AddressType(_) => Reply::AddressTypeNotSupported,
                Malformed::Version(_) | Malformed::Name => Reply::Failure,
            };
            answer(stream, reply, None).await?;
            Err(malformed.into())
        }
        Err(other) => Err(other),
    }
}

/// Answers a request, with the address from which the server is reached.
///
/// # Errors
/// If the client has gone.
pub async fn answer(stream: &TcpStream, reply: Reply, bound: Option<SocketAddr>) -> io::Result<()> {
    let bound = bound.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into());
    write_all(stream, &wire::emit_reply(reply, bound)).await
}

impl<'a> Session<'a> {
    /// Of a stream that nothing was read of.
    pub const fn new(stream: &'a TcpStream) -> Self {
        Self { stream, bytes: Vec::new() }
    }

    /// The next message, when it has come whole. What follows it stays.
    ///
    /// # Errors
    /// If what comes is none, or the stream ends.
    pub async fn message<T>(&mut self, parse: impl Fn(&[u8]) -> Parsed<T>) -> Result<T, Refusal> {
        loop {
            if let Some((message, len)) = parse(&self.bytes)? {
                self.bytes.drain(..len);
                return Ok(message);
            }
            // The longest message has 515 bytes, so that no client makes this grow.
            if read_some(self.stream, &mut self.bytes).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}
