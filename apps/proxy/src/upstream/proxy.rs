//! Connects to an upstream proxy over several links, and uses the first link on which the proxy gives a valid answer.
//!
//! A SYN+ACK does not prove that the proxy was reached: a captive portal or an accelerator on a link may answer in its
//! place, or a link may drop all data. So the race between the links ends with the first valid answer in the proxy's
//! protocol.
//!
//! The client's data must not reach the server twice. So data are sent in one flight with the request only if the
//! address pair has given a valid answer within the last 30 s, or is the only pair. Other attempts send only a message
//! that is safe to repeat. After an attempt has sent data, no other pair is tried, unless the answer shows that another
//! program received the data.

use crate::config::{Limits, Udp, User, Via};
use crate::log::RateLimited;
use crate::socks::wire::Reply;
use crate::stream::{StreamOptions, Transport, write_all};
use crate::uplinks;
use crate::upstream::connect::{Attempts, Candidates, Pair, connect_to, pairs};
use crate::upstream::pair_history::{PairHistory, answer_timeout};
use crate::upstream::resolver::{Addresses, Resolver, host_and_port};
use core::net::{IpAddr, SocketAddr};
use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

static SKIPPED_ADDRESSES: RateLimited = RateLimited::new();

/// An established connection to a target.
#[derive(Debug)]
pub struct Connected {
    /// The stream to the target.
    pub server: TcpStream,
    /// Local address of the connection to the target, as the proxy reports it; `None` if it reports none.
    pub bound: Option<SocketAddr>,
    /// Bytes from the target that have already been read.
    pub first: Vec<u8>,
}

/// Reason why no connection was opened: the reply for the client, and the text for the log.
pub type NotConnected = (Reply, String);

/// Data that a client sends before its request is answered. Each attempt to reach the target sends all of them again.
pub struct EarlyData<F> {
    read_more: F,
    bytes: Vec<u8>,
}

impl<F: FnMut() -> io::Result<Vec<u8>>> EarlyData<F> {
    /// Creates an empty store. `read_more` returns the data that the client has sent since the last call.
    pub const fn new(read_more: F) -> Self {
        Self { read_more, bytes: Vec::new() }
    }

    fn read(&mut self) -> Result<&[u8], NotConnected> {
        let more = (self.read_more)()
            .map_err(|error| (Reply::Failure, format!("the client has disconnected: {error}")))?;
        self.bytes.extend(more);
        Ok(&self.bytes)
    }
}

/// The first messages between this program and an upstream proxy, in the proxy's protocol.
pub trait Dialogue: Sync {
    /// The proxy's answer to `hello`.
    type Answer: Send;

    /// Encodes the first message, which the proxy answers. `local` is the local address of the connection. The message
    /// contains no data of the client, so it may be sent over several connections.
    ///
    /// # Errors
    /// If the message cannot be encoded.
    fn hello(&self, local: IpAddr) -> io::Result<Vec<u8>>;

    /// Encodes the rest of the request, which follows `hello`.
    ///
    /// # Errors
    /// If the request cannot be encoded.
    fn request(&self) -> io::Result<Vec<u8>>;

    /// Reads the answer to `hello`.
    fn answer(&self, stream: &TcpStream) -> impl Future<Output = Result<Self::Answer, NoAnswer>> + Send;
}

/// Reason why there is no valid answer on a connection.
#[derive(Debug)]
pub enum NoAnswer {
    /// A program other than the proxy answered.
    Foreign(NotConnected),
    /// The connection failed or ended.
    Broken(NotConnected),
}

/// A connection on which the proxy has given a valid answer.
#[derive(Debug)]
pub struct Opened<A> {
    /// The connection.
    pub stream: TcpStream,
    /// The proxy's answer to `hello`.
    pub answer: A,
    /// True if the request and early data have been sent; if false, [`UpstreamProxy::complete`] must send them.
    is_complete: bool,
}

/// A failed attempt. If it is final, no other attempt follows, because the client's data may have reached the proxy.
struct Failed {
    reason: NotConnected,
    is_final: bool,
}

type Ended<A> = (Pair, Result<(Opened<A>, Duration), Failed>);

/// An upstream proxy.
pub struct UpstreamProxy {
    via: Via,
    options: StreamOptions,
    resolver: Resolver,
    history: PairHistory,
}

impl UpstreamProxy {
    /// Creates an upstream proxy from the settings.
    pub fn new(via: Via, limits: &Limits) -> Self {
        let keep_alive = via.keep_alive.unwrap_or(limits.keep_alive).duration();
        let options = StreamOptions { transport: Transport::multipath(), keep_alive };
        let resolver = Resolver::new(limits.connect_timeout.duration());
        Self { via, options, resolver, history: PairHistory::default() }
    }

    /// Returns the transport of connections to the proxy.
    pub const fn transport(&self) -> Transport {
        self.options.transport
    }

    /// Returns the user as which this program logs in at the proxy; `None` without a login.
    pub const fn user(&self) -> Option<&User> {
        self.via.user.as_ref()
    }

    /// True if datagrams are sent over the links of `from` instead of in a stream.
    pub fn sends_over_paths(&self) -> bool {
        self.via.udp == Some(Udp::Paths)
    }

    /// Returns the present addresses of `from`.
    ///
    /// # Errors
    /// If none of them has an address, or the kernel does not list them.
    pub fn local_addresses(&self) -> io::Result<Vec<IpAddr>> {
        uplinks::addresses(&self.via.from)
    }

    /// Returns the resolver for names that this machine looks up.
    pub const fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Connects over the links and returns the first connection with a valid answer.
    ///
    /// # Errors
    /// The error of the last failed attempt, or that the client has disconnected.
    pub async fn open<D: Dialogue, F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        dialogue: &D,
        early: &mut EarlyData<F>,
    ) -> Result<Opened<D::Answer>, NotConnected> {
        let (order, from, mut addresses) =
            self.candidates().await.map_err(|error| self.connect_error(&error))?;
        let is_only = order.len() == 1 && !addresses.has_pending();
        let first = order.first().copied();
        let direct = first.filter(|pair| is_only || self.history.answered_in(*pair).is_some());
        let has_sent_data = AtomicBool::new(false);
        let (mut is_held, mut started) = (false, Vec::new());
        let (mut candidates, mut attempts) = (Candidates::new(order), Attempts::new());
        if let Some(pair) = direct.filter(|_| candidates.next_due(true).is_some()) {
            candidates.delay_next(answer_timeout(self.history.answered_in(pair)));
            started.push(pair);
            attempts.add(self.attempt_at_once(pair, dialogue, early, &has_sent_data));
        }
        let mut later = pin!(async { pairs(&addresses.later().await, &from) });
        let (mut is_later_due, mut reason) = (true, None);
        loop {
            let may_begin = !has_sent_data.load(Ordering::Relaxed);
            if let Some(pair) = may_begin.then(|| candidates.next_due(attempts.is_empty())).flatten() {
                started.push(pair);
                attempts.add(self.attempt(pair, dialogue));
            } else if attempts.is_empty() && !is_later_due {
                return Err(reason.unwrap_or_else(|| self.connect_error(&ErrorKind::HostUnreachable.into())));
            }
            tokio::select! {
                (pair, ended) = attempts.next_ended(), if !attempts.is_empty() => match ended {
                    Ok((opened, answered_in)) => {
                        self.record_success(pair, answered_in, &started, reason);
                        return Ok(opened);
                    }
                    Err(Failed { reason: failed, is_final }) => {
                        self.history.record(pair, None);
                        if is_final {
                            return Err(failed);
                        }
                        reason = Some(failed);
                        is_held = false;
                        candidates.start_next_now();
                    }
                },
                more = &mut later, if is_later_due => {
                    is_later_due = false;
                    candidates.add(more);
                }
                () = sleep_until(candidates.due_at()), if candidates.has_more() && !is_held => {
                    is_held = has_sent_data.load(Ordering::Relaxed);
                    // The result of this pair is removed, so that the next connection waits for an answer before it
                    // sends data.
                    first.filter(|_| is_held).inspect(|pair| self.history.forget(*pair));
                }
            }
        }
    }

    /// Sends the request and early data, unless the attempt has already sent them.
    ///
    /// # Errors
    /// If the client has disconnected, or the connection has failed.
    pub async fn complete<A, F: FnMut() -> io::Result<Vec<u8>>>(
        &self,
        opened: &Opened<A>,
        dialogue: &impl Dialogue,
        early: &mut EarlyData<F>,
    ) -> Result<(), NotConnected> {
        if opened.is_complete {
            return Ok(());
        }
        let mut bytes = dialogue.request().map_err(|error| self.connect_error(&error))?;
        bytes.extend_from_slice(early.read()?);
        write_all(&opened.stream, &bytes).await.map_err(|error| self.connect_error(&error))
    }

    /// Makes one attempt that waits for an answer before it sends data.
    async fn attempt<D: Dialogue>(&self, pair: Pair, dialogue: &D) -> Ended<D::Answer> {
        let begin = Instant::now();
        let attempting = async {
            let stream = connect_to(pair.0, pair.1, self.options).await?;
            write_all(&stream, &dialogue.hello(stream.local_addr()?.ip())?).await?;
            Ok(stream)
        };
        let failed = |reason| Failed { reason, is_final: false };
        let stream = match attempting.await {
            Ok(stream) => stream,
            Err(error) => return (pair, Err(failed(self.connect_error(&error)))),
        };
        match dialogue.answer(&stream).await {
            Ok(answer) => (pair, Ok((Opened { stream, answer, is_complete: false }, begin.elapsed()))),
            Err(NoAnswer::Foreign(reason) | NoAnswer::Broken(reason)) => (pair, Err(failed(reason))),
        }
    }

    /// Makes one attempt that sends greeting, request and early data in one flight.
    async fn attempt_at_once<D: Dialogue, F: FnMut() -> io::Result<Vec<u8>> + Send>(
        &self,
        pair: Pair,
        dialogue: &D,
        early: &mut EarlyData<F>,
        has_sent_data: &AtomicBool,
    ) -> Ended<D::Answer> {
        let begin = Instant::now();
        let broken = |error: &io::Error| self.connect_error(error);
        let flight = async |stream: &TcpStream, early: &mut EarlyData<F>| -> Result<(), NotConnected> {
            let local = stream.local_addr().map_err(|error| broken(&error))?;
            let mut bytes = dialogue.hello(local.ip()).map_err(|error| broken(&error))?;
            bytes.extend(dialogue.request().map_err(|error| broken(&error))?);
            let data = early.read()?;
            has_sent_data.store(!data.is_empty(), Ordering::Relaxed);
            bytes.extend_from_slice(data);
            write_all(stream, &bytes).await.map_err(|error| broken(&error))
        };
        let stream = match connect_to(pair.0, pair.1, self.options).await {
            Ok(stream) => stream,
            Err(error) => return (pair, Err(Failed { reason: broken(&error), is_final: false })),
        };
        let answered = match flight(&stream, early).await {
            Ok(()) => dialogue.answer(&stream).await,
            Err(reason) => Err(NoAnswer::Broken(reason)),
        };
        match answered {
            Ok(answer) => (pair, Ok((Opened { stream, answer, is_complete: true }, begin.elapsed()))),
            Err(NoAnswer::Foreign(reason)) => {
                has_sent_data.store(false, Ordering::Relaxed);
                (pair, Err(Failed { reason, is_final: false }))
            }
            Err(NoAnswer::Broken(reason)) => {
                let is_final = has_sent_data.load(Ordering::Relaxed);
                (pair, Err(Failed { reason, is_final }))
            }
        }
    }

    /// Records the pair that answered, and the pairs that were started before it as failed. `reason` is the error of
    /// the last failed attempt.
    fn record_success(
        &self,
        pair: Pair,
        answered_in: Duration,
        started: &[Pair],
        reason: Option<NotConnected>,
    ) {
        self.history.record(pair, Some(answered_in));
        let silent: Vec<_> = started.iter().copied().take_while(|other| *other != pair).collect();
        for other in &silent {
            self.history.record(*other, None);
        }
        if let Some((to, from)) = silent.first() {
            let reason = reason.map_or_else(|| "no answer in time".to_owned(), |(_, reason)| reason);
            let from = from.map_or_else(String::new, |from| format!(" from {from}"));
            SKIPPED_ADDRESSES.log_line(format_args!(
                "the proxy {} ({to}) gives no valid answer{from}: {reason}; using another address",
                self.via.proxy
            ));
        }
    }

    /// Returns the address pairs in the order of attempts, the local addresses, and the proxy's addresses whose look-up
    /// is still running.
    async fn candidates(&self) -> io::Result<(Vec<Pair>, Vec<IpAddr>, Addresses)> {
        // The text is valid, because the check of the configuration file refuses any other.
        let (host, port) = host_and_port(&self.via.proxy).ok_or(ErrorKind::InvalidInput)?;
        let mut addresses = self.resolver.addresses(None, host, port).await?;
        let from = uplinks::addresses(&self.via.from)?;
        let mut order = pairs(&std::mem::take(&mut addresses.ready), &from);
        self.history.sort(&mut order);
        Ok((order, from, addresses))
    }

    /// Creates the error of a failed connection to the proxy.
    pub fn connect_error(&self, error: &io::Error) -> NotConnected {
        let (reply, reason) = connect_error(error);
        (reply, format!("the proxy {}: {reason}", self.via.proxy))
    }

    /// Creates the error for a proxy that violates the protocol or refuses. `reason` is a predicate, such as "refuses
    /// the user".
    pub fn refused(&self, reason: &str) -> NotConnected {
        (Reply::Failure, format!("the proxy {} {reason}", self.via.proxy))
    }

    /// Creates the error of a request that the proxy rejected, with the reason that it reported.
    pub fn rejected(&self, reply: Reply, reason: impl core::fmt::Display) -> NotConnected {
        (reply, format!("the proxy {} reports: {reason}", self.via.proxy))
    }
}

/// Waits for a connection for at most `connect_timeout`.
///
/// # Errors
/// The error of `connecting`, or that the time has passed.
pub async fn within_connect_timeout<T>(
    limits: &Limits,
    connecting: impl Future<Output = Result<T, NotConnected>>,
) -> Result<T, NotConnected> {
    timeout(limits.connect_timeout.duration(), connecting)
        .await
        .unwrap_or_else(|_| Err((Reply::TimedOut, Reply::TimedOut.to_string())))
}

/// Converts the error of a connection to the reply to the client (RFC 1928 §6), and the text for the log.
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
