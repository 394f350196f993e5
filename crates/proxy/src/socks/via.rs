//! Servers reached by another SOCKS proxy of ours, which is reached by Multipath TCP.

use super::session::{Refusal, Session};
use super::wire::{self, Reply, Target, Verdict, method};
use crate::config::{Limits, User, Via};
use crate::upstream_proxy::{Connected, EarlyData, UpstreamProxy, NotConnected};
use crate::login::prove;
use crate::password_proof::Epoch;
use crate::stream::Transport;
use core::net::SocketAddr;
use std::io;
use std::sync::{Mutex, PoisonError};
use tokio::net::TcpStream;

/// The number of the request to connect.
const CONNECT: u8 = 1;

/// The address that a target sees, and what was read of it already.
type Answers = (Option<SocketAddr>, Vec<u8>);

/// The other proxy.
pub struct Upstream {
    proxy: UpstreamProxy,
    /// What the other proxy last said that its epoch is; zeros before.
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

    /// Has the other proxy connect to a target; what the client has said so far goes out with the request. If the other proxy has
    /// begun anew since the last time, it says its epoch and hangs up: what was said to it is said again over another connection.
    ///
    /// # Errors
    /// What the other proxy says, or why it is not reached; that the client is gone.
    pub async fn connect<F: FnMut() -> io::Result<Vec<u8>>>(
        &self,
        target: &Target,
        early: &mut EarlyData<F>,
    ) -> Result<Connected, NotConnected> {
        for _ in 0..2 {
            if let Some(connected) = self.attempt(target, early).await? {
                return Ok(connected);
            }
        }
        Err(self.proxy.refused("says twice that it has begun anew: are there several behind one name?"))
    }

    /// Nothing if the proof has to be made for another epoch.
    async fn attempt<F: FnMut() -> io::Result<Vec<u8>>>(
        &self,
        target: &Target,
        early: &mut EarlyData<F>,
    ) -> Result<Option<Connected>, NotConnected> {
        let stream = self.proxy.connect().await?;
        let flight = self.flight(target).map_err(|error| self.proxy.connect_error(&error))?;
        self.proxy.say(&stream, flight, early).await?;
        let answers = self.answers(&stream).await?;
        Ok(answers.map(|(bound, first)| Connected { server: stream, bound, first }))
    }

    /// All that is said to the other proxy, at once.
    fn flight(&self, target: &Target) -> io::Result<Vec<u8>> {
        let (mut bytes, mut request) = (wire::emit_greeting(self.method()).to_vec(), Vec::new());
        wire::emit_request(CONNECT, target, &mut request);
        if let Some(user) = self.proxy.user() {
            let epoch = *self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
            wire::emit_proof(&prove(user, epoch, &request)?, &mut bytes);
        }
        bytes.extend(request);
        Ok(bytes)
    }

    const fn method(&self) -> u8 {
        if self.proxy.user().is_some() { method::PROOF } else { method::NONE }
    }

    /// What it says to that, and what follows.
    async fn answers(&self, stream: &TcpStream) -> Result<Option<Answers>, NotConnected> {
        let broken = |refusal: Refusal| self.proxy.refused(&refusal.to_string());
        let mut session = Session::new(stream);
        if session.message(wire::chosen).await.map_err(broken)? != self.method() {
            return Err(self
                .proxy
                .refused("wants another way to log in: is it one of ours, of this version, with a user?"));
        }
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
