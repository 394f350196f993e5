//! Client of a converter. The connection to the converter uses Multipath TCP.

use super::cookie::cookie_with_proof;
use super::errors::reply;
use super::session::{Opening, OpeningError, read_opening};
use super::{ErrorCode, Tlv, emit};
use crate::auth::login::prove;
use crate::auth::password_proof::Epoch;
use crate::config::{Limits, Via};
use crate::socks::wire::{Reply, Target};
use crate::stream::{Transport, write_all};
use crate::upstream::proxy::{
    Connected, Dialogue, EarlyData, NoAnswer, NotConnected, Opened, UpstreamProxy, connect_error,
};
use crate::upstream::resolver::Addresses;
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Maximum number of a server's addresses that the client requests from the converter, one after another.
const MAX_ADDRESSES: usize = 4;
/// Maximum number of connections to the converter for one address of a server: the first with an expired cookie, the
/// second without a cookie, the third with the new cookie.
const MAX_ATTEMPTS: usize = 3;
/// Maximum number of stored cookies. Each is valid for one local address.
const MAX_COOKIES: usize = 32;
/// Maximum length of a cookie: the maximum message minus the headers of the message and of the cookie, and a Connect
/// TLV of 20 bytes.
const MAX_COOKIE_BYTES: usize = 1020 - 4 - 4 - 20;
/// Pause in requests after the converter reported a lack of resources without a duration (§6.2.8).
const DEFAULT_PAUSE_S: u8 = 30;

/// A converter, as its client uses it.
pub struct Client {
    proxy: UpstreamProxy,
    /// Cookies from the converter, by the local address for which they are valid.
    cookies: Mutex<BTreeMap<IpAddr, Vec<u8>>>,
    /// End of the pause in which this client sends no requests to the converter; `None` if there was no pause.
    paused_until: Mutex<Option<Instant>>,
}

/// Result of a connection to the converter.
enum Attempt {
    Connected(Connected),
    /// The attempt must be repeated with another cookie.
    RetryWithCookie,
    /// The converter cannot connect to this address of the server.
    Unreachable(NotConnected),
}

/// Relevant TLVs of the converter's answer.
#[derive(Default)]
struct AnswerTlvs {
    error: Option<(ErrorCode, Vec<u8>)>,
    cookie: Option<Vec<u8>>,
}

impl Client {
    /// Creates a converter's client from the settings.
    pub fn new(via: Via, limits: &Limits) -> Self {
        Self {
            proxy: UpstreamProxy::new(via, limits),
            cookies: Mutex::default(),
            paused_until: Mutex::default(),
        }
    }

    /// Returns the transport of connections to the converter. Such a connection falls back to TCP if the converter has
    /// no Multipath TCP.
    pub const fn transport(&self) -> Transport {
        self.proxy.transport()
    }

    /// Requests a connection to a target, after looking up its name on this machine. The message also contains the
    /// client's early data. A converter that does not connect forwards no data, so the next attempt sends them again.
    ///
    /// # Errors
    ///
    /// If the converter refuses or is not reached, or if the client has disconnected.
    pub async fn connect<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        target: &Target,
        early: &mut EarlyData<F>,
    ) -> Result<Connected, NotConnected> {
        self.check_pause()?;
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

    /// Requests a connection to one address. The inner error means that the converter cannot connect to this address.
    async fn reach<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        server: SocketAddr,
        early: &mut EarlyData<F>,
    ) -> Result<Result<Connected, NotConnected>, NotConnected> {
        for _ in 0..MAX_ATTEMPTS {
            match self.attempt(server, early).await? {
                Attempt::Connected(connected) => return Ok(Ok(connected)),
                Attempt::Unreachable(reason) => return Ok(Err(reason)),
                Attempt::RetryWithCookie => {}
            }
        }
        Err(self
            .proxy
            .refused("refuses the cookies that it sent; if it requires a user, add `user` to `via`"))
    }

    async fn attempt<F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        server: SocketAddr,
        early: &mut EarlyData<F>,
    ) -> Result<Attempt, NotConnected> {
        let conversation = Conversation { client: self, server, sent: Mutex::default() };
        let opened = self.proxy.open(&conversation, early).await?;
        let Some((code, value)) = &opened.answer.tlvs.error else {
            self.proxy.complete(&opened, &conversation, early).await?;
            let Opened { stream, answer, .. } = opened;
            return Ok(Attempt::Connected(Connected { server: stream, bound: None, first: answer.rest }));
        };
        // From here on, errors drop the stream, which resets the connection, as §6.2.2 requires.
        let code = *code;
        let local = opened.stream.local_addr().map_err(|error| self.proxy.connect_error(&error))?.ip();
        match code {
            ErrorCode::MissingCookie => {
                self.store_cookie(local, opened.answer.tlvs.cookie)?;
                Ok(Attempt::RetryWithCookie)
            }
            // The cookie has expired or is of an earlier process, or a NAT has changed the public address of this host.
            ErrorCode::NotAuthorized
                if self.proxy.user().is_none() && conversation.has_sent_cookie(local) =>
            {
                conversation.forget_cookie(local);
                Ok(Attempt::RetryWithCookie)
            }
            ErrorCode::ConnectionReset | ErrorCode::DestinationUnreachable => {
                Ok(Attempt::Unreachable(self.proxy.rejected(reply(code, value, server.ip()), code)))
            }
            ErrorCode::ResourceExceeded | ErrorCode::NetworkFailure => {
                self.pause(value);
                Err(self.proxy.rejected(Reply::Failure, code))
            }
            _ => Err(self.proxy.rejected(reply(code, value, server.ip()), code)),
        }
    }

    /// Encodes the message to the converter.
    fn message(&self, server: SocketAddr, stored: Option<Vec<u8>>) -> io::Result<Vec<u8>> {
        let mut tlvs = vec![Tlv::Connect { server, options: Vec::new() }];
        let too_long = || io::Error::other("the message is too long: the cookie does not fit");
        let cookie = match self.proxy.user() {
            Some(user) => {
                let epoch = stored.and_then(|stored| Epoch::try_from(stored).ok()).unwrap_or_default();
                let request = emit(&tlvs).ok_or_else(too_long)?;
                Some(cookie_with_proof(&prove(user, epoch, &request)?))
            }
            None => stored,
        };
        tlvs.extend(cookie.map(Tlv::Cookie));
        emit(&tlvs).ok_or_else(too_long)
    }

    /// Stores a cookie for a local address.
    fn store_cookie(&self, local: IpAddr, cookie: Option<Vec<u8>>) -> Result<(), NotConnected> {
        let cookie = cookie
            .filter(|cookie| !cookie.is_empty() && cookie.len() <= MAX_COOKIE_BYTES)
            .ok_or_else(|| self.proxy.refused("requires a cookie, but sends none of a valid length"))?;
        let mut cookies = self.cookies();
        if cookies.len() >= MAX_COOKIES && !cookies.contains_key(&local) {
            cookies.pop_first();
        }
        cookies.insert(local, cookie);
        Ok(())
    }

    fn cookies(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Vec<u8>>> {
        self.cookies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops requests to the converter for the number of seconds in `value`, or for the default time.
    fn pause(&self, value: &[u8]) {
        let seconds = value.first().copied().filter(|&seconds| seconds > 0).unwrap_or(DEFAULT_PAUSE_S);
        let until = Instant::now() + Duration::from_secs(seconds.into());
        *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    fn check_pause(&self) -> Result<(), NotConnected> {
        let until = *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        match until.map(|until| until.saturating_duration_since(Instant::now())) {
            Some(left) if !left.is_zero() => Err(self.proxy.refused(&format!(
                "has no resources left; next request in {:.0} s",
                left.as_secs_f64().ceil()
            ))),
            _ => Ok(()),
        }
    }
}

/// Queries the TCP options that a converter supports; returns false if the answer is not from a converter.
///
/// # Errors
/// If the connection breaks.
pub async fn probe_converter(stream: &TcpStream) -> io::Result<bool> {
    let query = emit(&[Tlv::Info]).expect("the message is short");
    write_all(stream, &query).await?;
    match read_opening(stream).await {
        Ok(_) => Ok(true),
        Err(OpeningError::Malformed(..)) => Ok(false),
        Err(OpeningError::Broken(error)) => Err(error),
    }
}

/// The answer of a converter, and the bytes that follow it.
struct Answer {
    tlvs: AnswerTlvs,
    rest: Vec<u8>,
}

/// A request for a connection to a server.
struct Conversation<'a> {
    client: &'a Client,
    server: SocketAddr,
    /// Cookies that this request has sent, by the local address of the connection.
    sent: Mutex<BTreeMap<IpAddr, Vec<u8>>>,
}

impl Conversation<'_> {
    fn sent(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Vec<u8>>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_sent_cookie(&self, local: IpAddr) -> bool {
        self.sent().contains_key(&local)
    }

    /// Removes the stored cookie of a local address, unless a concurrent request has stored another one.
    fn forget_cookie(&self, local: IpAddr) {
        let mut cookies = self.client.cookies();
        if cookies.get(&local) == self.sent().get(&local) {
            cookies.remove(&local);
        }
    }
}

impl Dialogue for Conversation<'_> {
    type Answer = Answer;

    fn hello(&self, local: IpAddr) -> io::Result<Vec<u8>> {
        let stored = self.client.cookies().get(&local).cloned();
        if let Some(cookie) = &stored {
            self.sent().insert(local, cookie.clone());
        }
        self.client.message(self.server, stored)
    }

    fn request(&self) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    async fn answer(&self, stream: &TcpStream) -> Result<Answer, NoAnswer> {
        let proxy = &self.client.proxy;
        let Opening { tlvs, rest, .. } = read_opening(stream).await.map_err(|no| match no {
            OpeningError::Malformed(malformed, _) => NoAnswer::Foreign(
                proxy.refused(&format!("{malformed}; check that a converter listens there")),
            ),
            OpeningError::Broken(error) => NoAnswer::Broken(proxy.connect_error(&error)),
        })?;
        let mut answer = AnswerTlvs::default();
        for tlv in tlvs {
            match tlv {
                Tlv::Error(code, value) => answer.error = Some((code, value)),
                Tlv::Cookie(cookie) => answer.cookie = Some(cookie),
                // These TLVs are of use only to clients that could connect to the server without a converter.
                Tlv::ExtendedTcpHeader(_) | Tlv::SupportedTcpExtensions(_) => {}
                Tlv::Other(kind, _) if kind != 0 => {}
                Tlv::Info | Tlv::Connect { .. } | Tlv::Other(..) => {
                    return Err(NoAnswer::Foreign(proxy.refused("sends TLVs that only a client may send")));
                }
            }
        }
        // §6.2.8: if there is no Cookie TLV, the Error TLV contains the cookie after a zero byte.
        if let (None, Some((ErrorCode::MissingCookie, value))) = (&answer.cookie, &answer.error)
            && let Some((0, cookie)) = value.split_first()
        {
            let mut cookie = cookie.to_vec();
            cookie.resize(cookie.len().next_multiple_of(super::WORD), 0);
            answer.cookie = Some(cookie);
        }
        Ok(Answer { tlvs: answer, rest })
    }
}

#[cfg(test)]
mod tests;
