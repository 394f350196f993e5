//! The server's side of the protocol, up to a complete request.

use super::wire::{self, Command, Malformed, Parsed, Reply, Target, Verdict, method};
use crate::login::{Logins, Shown, Tried};
use crate::stream::{read_some, write_all};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::fmt;
use std::io;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A client's request, and the bytes that follow it.
#[derive(Debug)]
pub struct Request {
    /// The user who has logged in.
    pub user: Option<Vec<u8>>,
    /// The command.
    pub command: Command,
    /// With whom.
    pub target: Target,
    /// Bytes for the target that have been read already.
    pub first: Vec<u8>,
}

/// Why a client got no further.
#[derive(Debug)]
pub enum Refusal {
    /// It speaks otherwise.
    Malformed(Malformed),
    /// It offers no method of log-in that is accepted here.
    NoMethod,
    /// It is not who it says, or not to be believed just now.
    NotAdmitted(Tried),
    /// Its connection broke, or ended.
    Broken(io::Error),
    /// Its connection ended after the greeting, as connections do that only ask whether a proxy answers.
    OnlyGreeted,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::NoMethod => f.write_str("offers no accepted way to log in"),
            Self::NotAdmitted(tried) => tried.fmt(f),
            Self::Broken(error) => write!(f, "disconnected before its request was complete: {error}"),
            Self::OnlyGreeted => f.write_str("disconnected after its greeting"),
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

/// A stream of messages, with a buffer.
pub struct Session<'a> {
    /// The stream.
    pub stream: &'a TcpStream,
    /// Bytes after the last message.
    pub bytes: Vec<u8>,
}

/// Greets a client, checks its log-in if there are users, and reads its request.
///
/// # Errors
///
/// The reason for a refusal. The client has an answer if the protocol has one.
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
    if !session.has_more().await {
        return Err(Refusal::OnlyGreeted);
    }
    let (user, command, target) = match logins {
        Some(logins) if method == method::PROOF => session.proven(peer, logins, deadline).await?,
        Some(logins) => {
            let (name, password) = session.message(wire::login).await?;
            let tried = logins.attempt(peer, &Shown::Password(name.clone(), password), deadline).await;
            write_all(stream, &wire::verdict(tried == Tried::Right)).await?;
            admitted(tried)?;
            let (command, target) = session.request().await?;
            (Some(name), command, target)
        }
        None => {
            let (command, target) = session.request().await?;
            (None, command, target)
        }
    };
    Ok(Request { user, command, target, first: session.bytes })
}

/// Sends our greeting; false if the answer does not choose the method that it offers.
///
/// # Errors
/// If the connection breaks.
pub async fn is_answered(stream: &TcpStream, has_user: bool) -> io::Result<bool> {
    let method = if has_user { method::PROOF } else { method::NONE };
    write_all(stream, &wire::emit_greeting(method)).await?;
    match Session::new(stream).message(wire::chosen).await {
        Ok(chosen) => Ok(chosen == method),
        Err(Refusal::Broken(error)) => Err(error),
        Err(_) => Ok(false),
    }
}

fn admitted(tried: Tried) -> Result<(), Refusal> {
    match tried {
        Tried::Right => Ok(()),
        refused => Err(Refusal::NotAdmitted(refused)),
    }
}

const fn verdict_on_proof(tried: Tried) -> Verdict {
    match tried {
        Tried::Right => Verdict::Right,
        Tried::Wrong(_) => Verdict::Wrong,
        Tried::Clock(_) => Verdict::Clock,
        Tried::Epoch(epoch) => Verdict::Again(epoch),
        Tried::Full | Tried::TooMany => Verdict::Busy,
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

    /// Waits for bytes after the last message; false if the stream ends or breaks before.
    async fn has_more(&mut self) -> bool {
        !self.bytes.is_empty() || matches!(read_some(self.stream, &mut self.bytes).await, Ok(1..))
    }

    /// Reads a request. A malformed one is answered.
    async fn request(&mut self) -> Result<(Command, Target), Refusal> {
        let asked = self.message(wire::request).await;
        if let Err(Refusal::Malformed(malformed)) = &asked {
            let reply = match malformed {
                Malformed::AddressType(_) => Reply::AddressTypeNotSupported,
                Malformed::Version(_) | Malformed::Name => Reply::Failure,
            };
            answer(self.stream, reply, None).await?;
        }
        asked
    }

    /// A proof of a password and the request that it is for.
    async fn proven(
        &mut self,
        peer: IpAddr,
        logins: &Logins,
        deadline: Instant,
    ) -> Result<(Option<Vec<u8>>, Command, Target), Refusal> {
        let with_bytes = |bytes: &[u8]| {
            let parsed = wire::request(bytes)?;
            Ok(parsed.map(|(request, len)| ((request, bytes[..len].to_vec()), len)))
        };
        let proof = self.message(wire::proof).await?;
        let ((command, target), bytes) = self.message(with_bytes).await?;
        let user = proof.name.clone();
        let tried = logins.attempt(peer, &Shown::Proof(proof, bytes), deadline).await;
        write_all(self.stream, &wire::emit_verdict_on_proof(verdict_on_proof(tried))).await?;
        admitted(tried).map(|()| (Some(user), command, target))
    }

    /// Reads a complete message. Bytes after it stay in the buffer.
    ///
    /// # Errors
    ///
    /// If the message is malformed, or the stream ends.
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
