//! Servers reached by a converter, which is reached by Multipath TCP.

use super::cookie::of_proof;
use super::errors::reply;
use super::session::{NoMessage, Opening, opening};
use super::{ErrorCode, Tlv, emit};
use crate::config::{Limits, Via};
use crate::login::prove;
use crate::password_proof::Epoch;
use crate::resolver::Addresses;
use crate::socks::wire::{Reply, Target};
use crate::stream::{Transport, write_all};
use crate::upstream_proxy::{
    Connected, Dialogue, EarlyData, NoAnswer, NotConnected, Opened, UpstreamProxy, connect_error,
};
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A server's addresses that are asked for, one after another.
const MAX_ADDRESSES: usize = 4;
/// Connections to the converter for one address of a server: with a cookie that is no longer good, with none, and with the new one.
const MAX_ATTEMPTS: usize = 3;
/// Addresses of ours for which cookies are kept.
const MAX_COOKIES: usize = 32;
/// Length of the longest cookie that fits into a message with its own header, the message's and a server of 20 bytes.
const MAX_COOKIE_BYTES: usize = 1020 - 4 - 4 - 20;
/// How long a converter is left alone that has no room and does not say for how long (§6.2.8).
const DEFAULT_PAUSE_S: u8 = 30;

/// The converter.
pub struct Client {
    proxy: UpstreamProxy,
    /// Cookies of the converter, by the local address that they are valid for.
    cookies: Mutex<BTreeMap<IpAddr, Vec<u8>>>,
    /// Until when it has no room.
    left_alone: Mutex<Option<Instant>>,
}

/// Result of a connection to the converter.
enum Attempt {
    Connected(Connected),
    /// It is to be made again, with another cookie.
    Again,
    /// The converter does not reach this address of the server.
    Unreached(NotConnected),
}

/// The converter's answer.
#[derive(Default)]
struct Said {
    error: Option<(ErrorCode, Vec<u8>)>,
    cookie: Option<Vec<u8>>,
}

impl Client {
    /// Creates it from the settings.
    pub fn new(via: Via, limits: &Limits) -> Self {
        Self {
            proxy: UpstreamProxy::new(via, limits),
            cookies: Mutex::default(),
            left_alone: Mutex::default(),
        }
    }

    /// By what it is reached, unless it has that not.
    pub const fn transport(&self) -> Transport {
        self.proxy.transport()
    }

    /// Has the converter connect to a target, whose name is looked up here. The client's first data go out with the message. A
    /// converter that does not connect has passed no data on, so they are repeated over the next connection.
    ///
    /// # Errors
    ///
    /// The converter's reason, or why it is not reached; that the client has disconnected.
    pub async fn connect<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        target: &Target,
        early: &mut EarlyData<F>,
    ) -> Result<Connected, NotConnected> {
        self.has_room()?;
        let mut addresses: Addresses = match target {
            Target::Address(address) => vec![*address].into(),
            Target::Name(name, port) => {
                let addresses = self.proxy.resolver().addresses(None, name, *port).await;
                addresses.map_err(|error| connect_error(&error))?
            }
        };
        let mut failure = (Reply::HostUnreachable, "has no address".to_owned());
        let mut servers: VecDeque<_> = std::mem::take(&mut addresses.ready).into();
        for _ in 0..MAX_ADDRESSES {
            if servers.is_empty() {
                servers.extend(addresses.later().await);
            }
            let Some(server) = servers.pop_front() else { break };
            match self.reach(server, early).await? {
                Ok(connected) => return Ok(connected),
                Err(unreached) => failure = unreached,
            }
        }
        Err(failure)
    }

    /// Has it connect to one address; in the answer, why that is not reached by it.
    async fn reach<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        server: SocketAddr,
        early: &mut EarlyData<F>,
    ) -> Result<Result<Connected, NotConnected>, NotConnected> {
        for _ in 0..MAX_ATTEMPTS {
            match self.attempt(server, early).await? {
                Attempt::Connected(connected) => return Ok(Ok(connected)),
                Attempt::Unreached(why) => return Ok(Err(why)),
                Attempt::Again => {}
            }
        }
        Err(self.proxy.refused("refuses each cookie that it sent: does it require a user?"))
    }

    async fn attempt<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        server: SocketAddr,
        early: &mut EarlyData<F>,
    ) -> Result<Attempt, NotConnected> {
        let conversation = Conversation { client: self, server };
        let opened = self.proxy.open(&conversation, early).await?;
        let Some((code, value)) = &opened.answer.said.error else {
            self.proxy.complete(&opened, &conversation, early).await?;
            let Opened { stream, answer, .. } = opened;
            return Ok(Attempt::Connected(Connected { server: stream, bound: None, first: answer.rest }));
        };
        // From here on, a stream that is dropped is reset, as §6.2.2 requires after an error.
        let code = *code;
        let here = opened.stream.local_addr().map_err(|error| self.proxy.connect_error(&error))?.ip();
        match code {
            ErrorCode::MissingCookie => {
                self.keep(here, opened.answer.said.cookie)?;
                Ok(Attempt::Again)
            }
            // A cookie of another time, or for another address that a translator has given us since.
            ErrorCode::NotAuthorized
                if self.proxy.user().is_none() && self.cookies().remove(&here).is_some() =>
            {
                Ok(Attempt::Again)
            }
            ErrorCode::ConnectionReset | ErrorCode::DestinationUnreachable => {
                Ok(Attempt::Unreached(self.proxy.rejected(reply(code, value, server.ip()), code)))
            }
            ErrorCode::ResourceExceeded | ErrorCode::NetworkFailure => {
                self.leave_alone(value);
                Err(self.proxy.rejected(Reply::Failure, code))
            }
            _ => Err(self.proxy.rejected(reply(code, value, server.ip()), code)),
        }
    }

    /// The message to the converter.
    fn message(&self, server: SocketAddr, kept: Option<Vec<u8>>) -> io::Result<Vec<u8>> {
        let mut tlvs = vec![Tlv::Connect { server, options: Vec::new() }];
        let too_long = || io::Error::other("a cookie has no room in a message");
        let cookie = match self.proxy.user() {
            Some(user) => {
                let epoch = kept.and_then(|kept| Epoch::try_from(kept).ok()).unwrap_or_default();
                let request = emit(&tlvs).ok_or_else(too_long)?;
                Some(of_proof(&prove(user, epoch, &request)?))
            }
            None => kept,
        };
        tlvs.extend(cookie.map(Tlv::Cookie));
        emit(&tlvs).ok_or_else(too_long)
    }

    /// Keeps a cookie for an address of ours.
    fn keep(&self, here: IpAddr, cookie: Option<Vec<u8>>) -> Result<(), NotConnected> {
        let cookie = cookie
            .filter(|cookie| !cookie.is_empty() && cookie.len() <= MAX_COOKIE_BYTES)
            .ok_or_else(|| self.proxy.refused("wants a cookie and gives none that could be shown"))?;
        let mut cookies = self.cookies();
        if cookies.len() >= MAX_COOKIES && !cookies.contains_key(&here) {
            cookies.pop_first();
        }
        cookies.insert(here, cookie);
        Ok(())
    }

    fn cookies(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Vec<u8>>> {
        self.cookies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends it nothing for the given number of seconds, or for the default time.
    fn leave_alone(&self, value: &[u8]) {
        let seconds = value.first().copied().filter(|&seconds| seconds > 0).unwrap_or(DEFAULT_PAUSE_S);
        let until = Instant::now() + Duration::from_secs(seconds.into());
        *self.left_alone.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    fn has_room(&self) -> Result<(), NotConnected> {
        let until = *self.left_alone.lock().unwrap_or_else(PoisonError::into_inner);
        match until.map(|until| until.saturating_duration_since(Instant::now())) {
            Some(left) if !left.is_zero() => Err(self.proxy.refused(&format!(
                "has no room, and is not asked for {:.0} s more",
                left.as_secs_f64().ceil()
            ))),
            _ => Ok(()),
        }
    }
}

/// Asks a converter which TCP options it supports; false if the answer is none of a converter.
///
/// # Errors
/// If the connection breaks.
pub async fn is_answered(stream: &TcpStream) -> io::Result<bool> {
    let question = emit(&[Tlv::Info]).expect("it is short");
    write_all(stream, &question).await?;
    match opening(stream).await {
        Ok(_) => Ok(true),
        Err(NoMessage::Malformed(..)) => Ok(false),
        Err(NoMessage::Broken(error)) => Err(error),
    }
}

/// The answer of a converter, and the bytes that follow it.
struct Answer {
    said: Said,
    rest: Vec<u8>,
}

/// A message with a server to connect to.
struct Conversation<'a> {
    client: &'a Client,
    server: SocketAddr,
}

impl Dialogue for Conversation<'_> {
    type Answer = Answer;

    fn hello(&self, local: IpAddr) -> io::Result<Vec<u8>> {
        let kept = self.client.cookies().get(&local).cloned();
        self.client.message(self.server, kept)
    }

    fn request(&self) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    async fn answer(&self, stream: &TcpStream) -> Result<Answer, NoAnswer> {
        let proxy = &self.client.proxy;
        let Opening { tlvs, rest, .. } = opening(stream).await.map_err(|no| match no {
            NoMessage::Malformed(malformed, _) => {
                NoAnswer::Foreign(proxy.refused(&format!("{malformed}: is it a converter?")))
            }
            NoMessage::Broken(error) => NoAnswer::Broken(proxy.connect_error(&error)),
        })?;
        let mut said = Said::default();
        for tlv in tlvs {
            match tlv {
                Tlv::Error(code, value) => said.error = Some((code, value)),
                Tlv::Cookie(cookie) => said.cookie = Some(cookie),
                // The options of a server are of use to clients that could reach it without a converter.
                Tlv::ExtendedTcpHeader(_) | Tlv::SupportedTcpExtensions(_) => {}
                Tlv::Other(kind, _) if kind != 0 => {}
                Tlv::Info | Tlv::Connect { .. } | Tlv::Other(..) => {
                    return Err(NoAnswer::Foreign(proxy.refused("answers as a client would")));
                }
            }
        }
        // §6.2.8: without a TLV for it, the cookie is in the error, after a zero byte.
        if let (None, Some((ErrorCode::MissingCookie, value))) = (&said.cookie, &said.error)
            && let Some((0, cookie)) = value.split_first()
        {
            let mut cookie = cookie.to_vec();
            cookie.resize(cookie.len().next_multiple_of(super::WORD), 0);
            said.cookie = Some(cookie);
        }
        Ok(Answer { said, rest })
    }
}

#[cfg(test)]
mod tests;
