//! Server side of SOCKS 5, up to the client's complete request.

use super::wire::{self, Command, LoginReply, Malformed, Parsed, Reply, Target, method};
use crate::auth::login::{Credentials, LoginResult, Logins};
use crate::stream::{read_some, write_all};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::fmt;
use std::io;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A client's request, and the bytes that follow it.
#[derive(Debug)]
pub struct Request {
    /// Name of the user who has logged in; `None` without a login.
    pub user: Option<Vec<u8>>,
    /// The command.
    pub command: Command,
    /// Target of the connection.
    pub target: Target,
    /// Bytes for the target that have already been read.
    pub first: Vec<u8>,
}

/// Reason for the refusal of a client.
#[derive(Debug)]
pub enum Refusal {
    /// The client sent a malformed message or uses another protocol.
    Malformed(Malformed),
    /// The client offers no accepted authentication method.
    NoMethod,
    /// The login was wrong, or could not be checked now.
    NotAdmitted(LoginResult),
    /// The connection failed or ended.
    Broken(io::Error),
    /// The connection ended after the greeting: the client only probed the proxy.
    OnlyGreeted,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::NoMethod => f.write_str("offers no accepted authentication method"),
            Self::NotAdmitted(result) => result.fmt(f),
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

/// A stream of messages with its receive buffer.
pub struct Session<'a> {
    /// The stream.
    pub stream: &'a TcpStream,
    /// Received bytes after the last message.
    pub bytes: Vec<u8>,
}

/// Answers a client's greeting, checks its login if the proxy has users, and reads its request.
///
/// # Errors
/// The reason for the refusal. If the protocol has an error message for it, the client has received that.
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
        write_all(stream, &wire::emit_selected_method(method::UNACCEPTABLE)).await?;
        return Err(Refusal::NoMethod);
    };
    write_all(stream, &wire::emit_selected_method(method)).await?;
    if !session.has_more().await {
        return Err(Refusal::OnlyGreeted);
    }
    let (user, command, target) = match logins {
        Some(logins) if method == method::PROOF => session.log_in_with_proof(peer, logins, deadline).await?,
        Some(logins) => {
            let (name, password) = session.message(wire::login).await?;
            let result = logins.attempt(peer, &Credentials::Password(name.clone(), password), deadline).await;
            write_all(stream, &wire::emit_login_result(result == LoginResult::Accepted)).await?;
            check_login(result)?;
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

/// Sends a greeting; returns false if the peer's answer does not select the offered authentication method.
///
/// # Errors
/// If the connection fails.
pub async fn probe_socks_proxy(stream: &TcpStream, has_user: bool) -> io::Result<bool> {
    let method = if has_user { method::PROOF } else { method::NONE };
    write_all(stream, &wire::emit_greeting(method)).await?;
    match Session::new(stream).message(wire::selected_method).await {
        Ok(chosen) => Ok(chosen == method),
        Err(Refusal::Broken(error)) => Err(error),
        Err(_) => Ok(false),
    }
}

fn check_login(result: LoginResult) -> Result<(), Refusal> {
    match result {
        LoginResult::Accepted => Ok(()),
        refused => Err(Refusal::NotAdmitted(refused)),
    }
}

const fn result_code(result: LoginResult) -> LoginReply {
    match result {
        LoginResult::Accepted => LoginReply::Accepted,
        LoginResult::Rejected(_) => LoginReply::Rejected,
        LoginResult::ClockDiffers(_) => LoginReply::ClockDiffers,
        LoginResult::OtherEpoch(epoch) => LoginReply::OtherEpoch(epoch),
        LoginResult::MemoryFull | LoginResult::TooManyFailures => LoginReply::Busy,
    }
}

/// Answers a request; `bound` is the local address of the connection to the server.
///
/// # Errors
/// If the client has disconnected.
pub async fn answer(stream: &TcpStream, reply: Reply, bound: Option<SocketAddr>) -> io::Result<()> {
    let bound = bound.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into());
    write_all(stream, &wire::emit_reply(reply, bound)).await
}

impl<'a> Session<'a> {
    /// Creates the session of a stream from which nothing has been read.
    pub const fn new(stream: &'a TcpStream) -> Self {
        Self { stream, bytes: Vec::new() }
    }

    /// Waits for bytes after the last message; returns false if the stream ends or fails first.
    async fn has_more(&mut self) -> bool {
        !self.bytes.is_empty() || matches!(read_some(self.stream, &mut self.bytes).await, Ok(1..))
    }

    /// Reads a request; answers with an error if it is malformed.
    async fn request(&mut self) -> Result<(Command, Target), Refusal> {
        let request = self.message(wire::request).await;
        if let Err(Refusal::Malformed(malformed)) = &request {
            let reply = match malformed {
                Malformed::AddressType(_) => Reply::AddressTypeNotSupported,
                Malformed::Version(_) | Malformed::Name | Malformed::Length => Reply::Failure,
            };
            answer(self.stream, reply, None).await?;
        }
        request
    }

    /// Reads a proof of a password and the request that it covers, and checks the login.
    async fn log_in_with_proof(
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
        let result = logins.attempt(peer, &Credentials::Proof(proof, bytes), deadline).await;
        write_all(self.stream, &wire::emit_proof_reply(result_code(result))).await?;
        check_login(result).map(|()| (Some(user), command, target))
    }

    /// Reads the next message. Bytes after it stay in the buffer.
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
            // The buffer stays small, because a message has at most 515 bytes.
            if read_some(self.stream, &mut self.bytes).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}
