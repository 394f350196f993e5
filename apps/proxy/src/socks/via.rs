//! Client of an upstream Anabranch SOCKS proxy. Connections to the upstream proxy use Multipath TCP.

use super::session::{Refusal, Session};
use super::wire::{self, LoginReply, Reply, Target, method};
use crate::auth::login::prove;
use crate::auth::password_proof::Epoch;
use crate::config::{Limits, User, Via};
use crate::datagrams::{Datagram, Framed, Keys, PathsSide, Side};
use crate::stream::Transport;
use crate::upstream::proxy::{Connected, Dialogue, EarlyData, NoAnswer, NotConnected, Opened, UpstreamProxy};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;

/// Address from which the proxy connects to the target, and bytes from the target that have already been read.
type Answers = (Option<SocketAddr>, Vec<u8>);

/// The upstream proxy as a side of a datagram relay.
pub enum UpstreamSide {
    /// Datagrams in a stream.
    Stream(Framed),
    /// Datagrams over several paths.
    Paths(Box<PathsSide>),
}

impl Side for UpstreamSide {
    async fn receive(&mut self) -> io::Result<Datagram> {
        match self {
            Self::Stream(framed) => framed.receive().await,
            Self::Paths(paths) => paths.receive().await,
        }
    }

    fn send(&mut self, datagram: Datagram) {
        match self {
            Self::Stream(framed) => framed.send(datagram),
            Self::Paths(paths) => paths.send(datagram),
        }
    }
}

/// An upstream SOCKS proxy.
pub struct Upstream {
    proxy: UpstreamProxy,
    /// Epoch that the upstream proxy sent last; zeros before it has sent one.
    epoch: Mutex<Epoch>,
}

impl Upstream {
    /// Creates a client of a SOCKS proxy from the settings.
    pub fn new(via: Via, limits: &Limits) -> Self {
        Self { proxy: UpstreamProxy::new(via, limits), epoch: Mutex::default() }
    }

    /// Returns the transport of connections to the upstream proxy. Such a connection falls back to TCP if the proxy has
    /// no Multipath TCP.
    pub const fn transport(&self) -> Transport {
        self.proxy.transport()
    }

    /// Requests a connection to a target. If the upstream proxy has restarted since the last request, it answers with
    /// its new epoch and closes the connection; the request is then repeated over another connection.
    ///
    /// # Errors
    /// If the upstream proxy refuses or is not reached, or if the client has disconnected.
    pub async fn connect<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        target: &Target,
        early: &mut EarlyData<F>,
    ) -> Result<Connected, NotConnected> {
        self.request(wire::CONNECT, target, early).await
    }

    /// Requests an association for datagrams. The early data are frames.
    ///
    /// # Errors
    /// The errors of [`Self::connect`], or that the upstream proxy does not relay UDP.
    pub async fn open_datagrams<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        early: &mut EarlyData<F>,
    ) -> Result<UpstreamSide, NotConnected> {
        let user = self.proxy.user().filter(|_| self.proxy.sends_over_paths());
        let Some(user) = user else {
            let no_target = Target::Address((Ipv4Addr::UNSPECIFIED, 0).into());
            let Connected { server, first, .. } =
                self.request_datagrams(wire::DATAGRAMS, &no_target, early).await?;
            return Ok(UpstreamSide::Stream(Framed::new(Arc::new(server), first)));
        };
        let failed = |error: &io::Error| self.proxy.connect_error(error);
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| failed(&io::Error::other(error)))?;
        let target = Target::Address((Ipv6Addr::from(nonce), 0).into());
        let connected = self.request_datagrams(wire::DATAGRAM_PATHS, &target, early).await?;
        // The reply contains the far proxy's nonce in place of an address.
        let Some(SocketAddr::V6(bound)) = connected.bound else {
            return Err(self.proxy.refused("returns no port for datagrams"));
        };
        let keys = Keys::of_client(user.password.as_bytes(), &nonce, &bound.ip().octets());
        let mut far = connected.server.peer_addr().map_err(|error| failed(&error))?;
        far.set_port(bound.port());
        let from = self.proxy.local_addresses().map_err(|error| failed(&error))?;
        let stream = Framed::new(Arc::new(connected.server), connected.first);
        Ok(UpstreamSide::Paths(Box::new(PathsSide::of_upstream(stream, keys, far, &from))))
    }

    async fn request_datagrams<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        command: u8,
        target: &Target,
        early: &mut EarlyData<F>,
    ) -> Result<Connected, NotConnected> {
        self.request(command, target, early).await.map_err(|(reply, reason)| match reply {
            Reply::CommandNotSupported => {
                let reason =
                    "does not relay UDP: its version is older, or its file has udp = false; TCP is not affected";
                (reply, self.proxy.refused(reason).1)
            }
            _ => (reply, reason),
        })
    }

    async fn request<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        command: u8,
        target: &Target,
        early: &mut EarlyData<F>,
    ) -> Result<Connected, NotConnected> {
        for _ in 0..2 {
            if let Some(connected) = self.attempt(command, target, early).await? {
                return Ok(connected);
            }
        }
        Err(self.proxy.refused("reports two restarts in a row; check that its name stands for one proxy"))
    }

    /// Makes one attempt to connect; returns `None` if it must be repeated with a proof for another epoch.
    async fn attempt<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        command: u8,
        target: &Target,
        early: &mut EarlyData<F>,
    ) -> Result<Option<Connected>, NotConnected> {
        let conversation = Conversation { upstream: self, command, target };
        let opened = self.proxy.open(&conversation, early).await?;
        self.proxy.complete(&opened, &conversation, early).await?;
        let Opened { stream, answer: bytes, .. } = opened;
        let answers = self.answers(Session { stream: &stream, bytes }).await?;
        Ok(answers.map(|(bound, first)| Connected { server: stream, bound, first }))
    }

    const fn method(&self) -> u8 {
        if self.proxy.user().is_some() { method::PROOF } else { method::NONE }
    }

    /// Reads the proxy's answers to the request, and the bytes that follow them.
    async fn answers(&self, mut session: Session<'_>) -> Result<Option<Answers>, NotConnected> {
        let broken = |refusal: Refusal| self.proxy.refused(&refusal.to_string());
        if let Some(user) = self.proxy.user() {
            let reply = session.message(wire::proof_reply).await.map_err(broken)?;
            if !self.check_proof_reply(user, reply)? {
                return Ok(None);
            }
        }
        let (code, bound) = session.message(wire::reply).await.map_err(broken)?;
        match Reply::from_code(code) {
            Reply::Succeeded => {
                let bound = if let Target::Address(address) = bound { Some(address) } else { None };
                Ok(Some((bound, session.bytes)))
            }
            other => Err(self.proxy.rejected(other, other)),
        }
    }

    /// Checks the reply to the proof: true if the proxy accepts it, false if it must be repeated for another epoch.
    fn check_proof_reply(&self, user: &User, reply: LoginReply) -> Result<bool, NotConnected> {
        match reply {
            LoginReply::Accepted => Ok(true),
            LoginReply::OtherEpoch(epoch) => {
                *self.epoch.lock().unwrap_or_else(PoisonError::into_inner) = epoch;
                Ok(false)
            }
            LoginReply::Rejected => {
                Err(self.proxy.refused(&format!("refuses the user {}: wrong name or password", user.name)))
            }
            LoginReply::ClockDiffers => Err(self
                .proxy
                .refused("has a clock that differs by more than two minutes; synchronise both clocks")),
            LoginReply::Busy => {
                Err(self.proxy.refused("refuses the login because of too many attempts; try again later"))
            }
        }
    }
}

/// The messages of this client that request a connection to a target: a greeting and a request.
struct Conversation<'a> {
    upstream: &'a Upstream,
    command: u8,
    target: &'a Target,
}

impl Dialogue for Conversation<'_> {
    /// Bytes that follow the selected authentication method.
    type Answer = Vec<u8>;

    fn hello(&self, _: IpAddr) -> io::Result<Vec<u8>> {
        Ok(wire::emit_greeting(self.upstream.method()).to_vec())
    }

    fn request(&self) -> io::Result<Vec<u8>> {
        let (mut bytes, mut request) = (Vec::new(), Vec::new());
        wire::emit_request(self.command, self.target, &mut request);
        if let Some(user) = self.upstream.proxy.user() {
            let epoch = *self.upstream.epoch.lock().unwrap_or_else(PoisonError::into_inner);
            wire::emit_proof(&prove(user, epoch, &request)?, &mut bytes);
        }
        bytes.extend(request);
        Ok(bytes)
    }

    async fn answer(&self, stream: &TcpStream) -> Result<Vec<u8>, NoAnswer> {
        let proxy = &self.upstream.proxy;
        let mut session = Session::new(stream);
        let chosen = session.message(wire::selected_method).await.map_err(|refusal| match refusal {
            Refusal::Malformed(_) => NoAnswer::Foreign(proxy.refused(&format!(
                "{refusal}; a captive portal or a transparent proxy may answer in its place"
            ))),
            _ => NoAnswer::Broken(proxy.refused(&refusal.to_string())),
        })?;
        if chosen == self.upstream.method() {
            return Ok(session.bytes);
        }
        let reason = "requires another authentication method; check that it is an Anabranch proxy of this version, and `user` in `via`";
        Err(NoAnswer::Foreign(proxy.refused(reason)))
    }
}
