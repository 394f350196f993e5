//! Another proxy, as it is reached, and what comes of asking it for a server.

use super::config::{Limits, User, Via};
use super::connect::connect;
use super::resolver::{Addresses, Resolver, host_and_port};
use super::socks::wire::Reply;
use super::stream::{StreamOptions, Transport, write_all};
use super::uplinks;
use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use tokio::net::TcpStream;

/// A target that is connected.
#[derive(Debug)]
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

/// What a client says before it is answered: all of it is said again with each attempt to reach its target.
pub struct EarlyData<F> {
    more: F,
    said: Vec<u8>,
}

impl<F: FnMut() -> io::Result<Vec<u8>>> EarlyData<F> {
    /// `more` is asked for what it has said since the last time.
    pub const fn new(more: F) -> Self {
        Self { more, said: Vec::new() }
    }
}

/// The other proxy.
pub struct UpstreamProxy {
    via: Via,
    options: StreamOptions,
    resolver: Resolver,
}

impl UpstreamProxy {
    /// Creates it from the settings.
    pub fn new(via: Via, limits: &Limits) -> Self {
        let keep_alive = via.keep_alive.unwrap_or(limits.keep_alive).duration();
        let options = StreamOptions { transport: Transport::multipath(), keep_alive };
        Self { via, options, resolver: Resolver::new(limits.connect_timeout.duration()) }
    }

    /// By what it is reached, unless it has that not.
    pub const fn transport(&self) -> Transport {
        self.options.transport
    }

    /// Who we are there.
    pub const fn user(&self) -> Option<&User> {
        self.via.user.as_ref()
    }

    /// The resolver of this machine.
    pub const fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// A connection to it.
    ///
    /// # Errors
    /// Why it is not reached.
    pub async fn connect(&self) -> Result<TcpStream, NotConnected> {
        let connecting = async {
            let mut addresses = self.addresses().await?;
            let from = uplinks::addresses(&self.via.from)?;
            let ready = std::mem::take(&mut addresses.ready);
            connect(&ready, async { addresses.later().await }, &from, self.options).await
        };
        connecting.await.map_err(|error| self.connect_error(&error))
    }

    /// Says a request, and in the same flight what the client has said so far.
    ///
    /// # Errors
    /// That the client is gone, or the connection broken.
    pub async fn say<F: FnMut() -> io::Result<Vec<u8>>>(
        &self,
        stream: &TcpStream,
        mut request: Vec<u8>,
        early: &mut EarlyData<F>,
    ) -> Result<(), NotConnected> {
        let more =
            (early.more)().map_err(|error| (Reply::Failure, format!("the client is gone: {error}")))?;
        early.said.extend(more);
        request.extend_from_slice(&early.said);
        write_all(stream, &request).await.map_err(|error| self.connect_error(&error))
    }

    async fn addresses(&self) -> io::Result<Addresses> {
        // A file with another text is refused.
        let (host, port) = host_and_port(&self.via.proxy).ok_or(ErrorKind::InvalidInput)?;
        self.resolver.addresses(None, host, port).await
    }

    /// A connection to it failed so.
    pub fn connect_error(&self, error: &io::Error) -> NotConnected {
        let (reply, said) = connect_error(error);
        (reply, format!("the proxy {}: {said}", self.via.proxy))
    }

    /// It does not do what it was asked for.
    pub fn refused(&self, said: &str) -> NotConnected {
        (Reply::Failure, format!("the proxy {} {said}", self.via.proxy))
    }

    /// It tells why not.
    pub fn rejected(&self, reply: Reply, said: impl core::fmt::Display) -> NotConnected {
        (reply, format!("the proxy {} says: {said}", self.via.proxy))
    }
}

/// What a client is told of a connection that failed (RFC 1928 §6), and the log.
pub fn connect_error(error: &io::Error) -> NotConnected {
    let reply = match error.kind() {
        ErrorKind::ConnectionRefused => Reply::Refused,
        ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
        ErrorKind::HostUnreachable => Reply::HostUnreachable,
        ErrorKind::TimedOut => Reply::TimedOut,
        _ => Reply::Failure,
    };
    (reply, error.to_string())
}
