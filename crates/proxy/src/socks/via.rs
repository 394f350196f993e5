//! Servers reached by another proxy of ours, which is reached by Multipath TCP.

use super::session::{Refusal, Session};
use super::wire::{self, Reply, Target, method};
use crate::config::Via;
use crate::connect::connect;
use crate::login::prove;
use crate::stream::{Transport, write_all};
use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use tokio::net::TcpStream;

/// The number of the request to connect.
const CONNECT: u8 = 1;

/// A target that is connected.
pub struct Connected {
    /// The stream to it.
    pub server: TcpStream,
    /// The address that it sees.
    pub bound: Option<SocketAddr>,
    /// What was read of it already.
    pub first: Vec<u8>,
}

/// Why a target is not connected, as the client is told and as the log is.
pub type NotConnected = (Reply, String);

/// The other proxy.
pub struct Upstream {
    via: Via,
    transport: Transport,
}

impl Upstream {
    /// With these settings.
    pub fn new(via: Via) -> Self {
        Self { via, transport: Transport::multipath() }
    }

    /// By what it is reached, unless it has that not.
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// Has the other proxy connect to a target. When it is reached, `early` is asked for what the client has said so far, which
    /// goes out with the request.
    ///
    /// # Errors
    /// What the other proxy says, or why it is not reached; that the client is gone.
    pub async fn connect(
        &self,
        target: &Target,
        early: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> Result<Connected, NotConnected> {
        let of_proxy = |error: io::Error| {
            let (reply, said) = failed(&error);
            (reply, format!("the proxy {}: {said}", self.via.proxy))
        };
        let addresses: Vec<_> = tokio::net::lookup_host(&self.via.proxy).await.map_err(of_proxy)?.collect();
        let stream = connect(&addresses, &self.via.from, self.transport).await.map_err(of_proxy)?;
        let mut flight = self.flight(target).map_err(of_proxy)?;
        flight.extend(early().map_err(|error| (Reply::Failure, format!("the client is gone: {error}")))?);
        write_all(&stream, &flight).await.map_err(of_proxy)?;
        let (bound, first) = self.answers(&stream).await?;
        Ok(Connected { server: stream, bound, first })
    }

    /// All that is said to the other proxy, at once.
    fn flight(&self, target: &Target) -> io::Result<Vec<u8>> {
        let mut bytes = wire::emit_greeting(self.method()).to_vec();
        if let Some(user) = &self.via.user {
            wire::emit_proof(&prove(user)?, &mut bytes);
        }
        wire::emit_request(CONNECT, target, &mut bytes);
        Ok(bytes)
    }

    const fn method(&self) -> u8 {
        if self.via.user.is_some() { method::PROOF } else { method::NONE }
    }

    /// What it says to that, and what follows.
    async fn answers(&self, stream: &TcpStream) -> Result<(Option<SocketAddr>, Vec<u8>), NotConnected> {
        let refused = |said: &str| (Reply::Failure, format!("the proxy {} {said}", self.via.proxy));
        let broken = |refusal: Refusal| refused(&refusal.to_string());
        let mut session = Session::new(stream);
        if session.message(wire::chosen).await.map_err(broken)? != self.method() {
            return Err(refused("wants another way to log in: is it one of ours, with a user?"));
        }
        if self.via.user.is_some() && !session.message(wire::admitted).await.map_err(broken)? {
            return Err(refused("does not take name and password, or the clocks differ: its log says which"));
        }
        let (code, bound) = session.message(wire::reply).await.map_err(broken)?;
        match Reply::from_code(code) {
            Reply::Succeeded => {
                let bound = if let Target::Address(address) = bound { Some(address) } else { None };
                Ok((bound, session.bytes))
            }
            other => Err((other, format!("the proxy {} says: {other}", self.via.proxy))),
        }
    }
}

/// What a client is told of a connection that failed (RFC 1928 §6), and the log.
pub fn failed(error: &io::Error) -> NotConnected {
    let reply = match error.kind() {
        ErrorKind::ConnectionRefused => Reply::Refused,
        ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
        ErrorKind::HostUnreachable => Reply::HostUnreachable,
        ErrorKind::TimedOut => Reply::TimedOut,
        _ => Reply::Failure,
    };
    (reply, error.to_string())
}
