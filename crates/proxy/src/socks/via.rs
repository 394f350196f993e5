//! Servers reached by another SOCKS proxy of ours, which is reached by Multipath TCP.

use super::session::{Refusal, Session};
use super::wire::{self, Reply, Target, Verdict, method};
use crate::config::{Limits, User, Via};
use crate::login::prove;
use crate::password_proof::Epoch;
use crate::stream::Transport;
use crate::upstream_proxy::{Connected, Dialogue, EarlyData, NoAnswer, NotConnected, Opened, UpstreamProxy};
use core::net::{IpAddr, SocketAddr};
use std::io;
use std::sync::{Mutex, PoisonError};
use tokio::net::TcpStream;

/// The number of the request to connect.
const CONNECT: u8 = 1;

/// The address that the target sees, and bytes of it that have been read already.
type Answers = (Option<SocketAddr>, Vec<u8>);

/// The other proxy.
pub struct Upstream {
    proxy: UpstreamProxy,
    /// The epoch of the other proxy as last received; zeros before.
    epoch: Mutex<Epoch>,
}

impl Upstream {
    /// Creates it from the settings.
    pub fn new(via: Via, limits: &Limits) -> Self {
        Self { proxy: UpstreamProxy::new(via, limits), epoch: Mutex::default() }
    }

    /// By what it is reached, unless it has that not.
    pub const fn transport(&self) -> Transport {
        self.proxy.transport()
    }

    /// Has the other proxy connect to a target. If the other proxy has restarted since the last time, it answers with its epoch and
    /// hangs up: the request is repeated over another connection.
    ///
    /// # Errors
    /// The other proxy's reason, or why it is not reached; that the client has disconnected.
    pub async fn connect<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        target: &Target,
        early: &mut EarlyData<F>,
    ) -> Result<Connected, NotConnected> {
        for _ in 0..2 {
            if let Some(connected) = self.attempt(target, early).await? {
                return Ok(connected);
            }
        }
        Err(self
            .proxy
            .refused("answers twice that it has restarted: does its name stand for several proxies?"))
    }

    /// Nothing if the proof has to be made for another epoch.
    async fn attempt<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        target: &Target,
        early: &mut EarlyData<F>,
    ) -> Result<Option<Connected>, NotConnected> {
        let conversation = Conversation { upstream: self, target };
        let opened = self.proxy.open(&conversation, early).await?;
        self.proxy.complete(&opened, &conversation, early).await?;
        let Opened { stream, answer: bytes, .. } = opened;
        let answers = self.answers(Session { stream: &stream, bytes }).await?;
        Ok(answers.map(|(bound, first)| Connected { server: stream, bound, first }))
    }

    const fn method(&self) -> u8 {
        if self.proxy.user().is_some() { method::PROOF } else { method::NONE }
    }

    /// Reads the answers to the request, and the bytes that follow them.
    async fn answers(&self, mut session: Session<'_>) -> Result<Option<Answers>, NotConnected> {
        let broken = |refusal: Refusal| self.proxy.refused(&refusal.to_string());
        if let Some(user) = self.proxy.user() {
            let verdict = session.message(wire::verdict_on_proof).await.map_err(broken)?;
            if !self.admitted(user, verdict)? {
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

    /// Whether it takes the proof; if not, it is to be made again.
    fn admitted(&self, user: &User, verdict: Verdict) -> Result<bool, NotConnected> {
        match verdict {
            Verdict::Right => Ok(true),
            Verdict::Again(epoch) => {
                *self.epoch.lock().unwrap_or_else(PoisonError::into_inner) = epoch;
                Ok(false)
            }
            Verdict::Wrong => {
                Err(self.proxy.refused(&format!("does not take the name {} with its password", user.name)))
            }
            Verdict::Clock => {
                Err(self.proxy.refused("has a clock that differs by more than two minutes: set both right"))
            }
            Verdict::Busy => {
                Err(self.proxy.refused("has to do with too many log-ins, or wrong ones from here; later"))
            }
        }
    }
}

/// The greeting and a request for a target.
struct Conversation<'a> {
    upstream: &'a Upstream,
    target: &'a Target,
}

impl Dialogue for Conversation<'_> {
    /// Bytes that follow the choice of a method.
    type Answer = Vec<u8>;

    fn hello(&self, _: IpAddr) -> io::Result<Vec<u8>> {
        Ok(wire::emit_greeting(self.upstream.method()).to_vec())
    }

    fn request(&self) -> io::Result<Vec<u8>> {
        let (mut bytes, mut request) = (Vec::new(), Vec::new());
        wire::emit_request(CONNECT, self.target, &mut request);
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
        let chosen = session.message(wire::chosen).await.map_err(|refusal| match refusal {
            Refusal::Malformed(_) => NoAnswer::Foreign(
                proxy.refused(&format!("{refusal}: a portal or a transparent proxy may answer in its place")),
            ),
            _ => NoAnswer::Broken(proxy.refused(&refusal.to_string())),
        })?;
        if chosen == self.upstream.method() {
            return Ok(session.bytes);
        }
        let reason = "wants another way to log in: is it one of ours, of this version, with a user?";
        Err(NoAnswer::Foreign(proxy.refused(reason)))
    }
}
