//! An upstream proxy: connecting to it over the first of several links on which it gives a valid answer.
//!
//! A SYN+ACK is no proof of the proxy. A portal or an accelerator on a link may answer in its place, or a link may drop all data.
//! So the race between the links ends with the first valid answer of the proxy's protocol.
//!
//! The client's data must not reach its server twice. They go out with the request, in one flight, only if the pair of addresses
//! has given a valid answer within the last 30 s or is the only one; other attempts send what is harmless to repeat. After such a
//! flight with data has gone out, no other pair is tried unless another program has answered it.

use super::config::{Limits, User, Via};
use super::connect::{Attempts, Candidates, Pair, connect_to, pairs};
use super::log::Limited;
use super::pair_history::{PairHistory, patience};
use super::resolver::{Addresses, Resolver, host_and_port};
use super::socks::wire::Reply;
use super::stream::{StreamOptions, Transport, write_all};
use super::uplinks;
use core::net::{IpAddr, SocketAddr};
use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

static PASSED_OVER: Limited = Limited::new();

/// A target that is connected.
#[derive(Debug)]
pub struct Connected {
    /// The stream to it.
    pub server: TcpStream,
    /// The address from which the target sees the connection come.
    pub bound: Option<SocketAddr>,
    /// Bytes of it that have been read already.
    pub first: Vec<u8>,
}

/// Why a target is not connected, for the client and for the log.
pub type NotConnected = (Reply, String);

/// Data that a client sends before it has an answer. Each attempt to reach its target repeats all of them.
pub struct EarlyData<F> {
    read_more: F,
    bytes: Vec<u8>,
}

impl<F: FnMut() -> io::Result<Vec<u8>>> EarlyData<F> {
    /// `read_more` returns the data that have come since the last call.
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

/// The beginning of a conversation with an upstream proxy.
pub trait Dialogue: Sync {
    /// The first answer.
    type Answer: Send;

    /// Bytes that the proxy answers, for a connection from this local address. It is harmless to send them on several
    /// connections: they contain no data of the client.
    ///
    /// # Errors
    /// If they cannot be made.
    fn hello(&self, local: IpAddr) -> io::Result<Vec<u8>>;

    /// The rest of the request, which follows `hello`.
    ///
    /// # Errors
    /// If it cannot be made.
    fn request(&self) -> io::Result<Vec<u8>>;

    /// Reads the answer to `hello`.
    fn answer(&self, stream: &TcpStream) -> impl Future<Output = Result<Self::Answer, NoAnswer>> + Send;
}

/// Why a connection has no valid answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// Other bytes came than the proxy's.
    Foreign(NotConnected),
    /// The connection broke or ended.
    Broken(NotConnected),
}

/// A connection with a valid answer.
#[derive(Debug)]
pub struct Opened<A> {
    /// The connection.
    pub stream: TcpStream,
    /// The answer.
    pub answer: A,
    /// Request and early data have gone out; otherwise [`UpstreamProxy::complete`] sends them.
    is_complete: bool,
}

/// Why an attempt failed. No other one follows if the client's data may have reached the proxy.
struct Failed {
    reason: NotConnected,
    is_final: bool,
}

type Ended<A> = (Pair, Result<(Opened<A>, Duration), Failed>);

/// The other proxy.
pub struct UpstreamProxy {
    via: Via,
    options: StreamOptions,
    resolver: Resolver,
    history: PairHistory,
}

impl UpstreamProxy {
    /// Creates it from the settings.
    pub fn new(via: Via, limits: &Limits) -> Self {
        let keep_alive = via.keep_alive.unwrap_or(limits.keep_alive).duration();
        let options = StreamOptions { transport: Transport::multipath(), keep_alive };
        let resolver = Resolver::new(limits.connect_timeout.duration());
        Self { via, options, resolver, history: PairHistory::default() }
    }

    /// The transport to it.
    pub const fn transport(&self) -> Transport {
        self.options.transport
    }

    /// Our user there.
    pub const fn user(&self) -> Option<&User> {
        self.via.user.as_ref()
    }

    /// The resolver of this machine.
    pub const fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Connects, and returns the first connection with a valid answer.
    ///
    /// # Errors
    /// The reason of the last attempt that failed; that the client has disconnected.
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
        let (mut is_held, mut begun) = (false, Vec::new());
        let (mut candidates, mut attempts) = (Candidates::new(order), Attempts::new());
        if let Some(pair) = direct.filter(|_| candidates.next_due(true).is_some()) {
            candidates.delay_next(patience(self.history.answered_in(pair)));
            begun.push(pair);
            attempts.add(self.attempt_at_once(pair, dialogue, early, &has_sent_data));
        }
        let mut later = pin!(async { pairs(&addresses.later().await, &from) });
        let (mut is_later_due, mut reason) = (true, None);
        loop {
            let may_begin = !has_sent_data.load(Ordering::Relaxed);
            if let Some(pair) = may_begin.then(|| candidates.next_due(attempts.is_empty())).flatten() {
                begun.push(pair);
                attempts.add(self.attempt(pair, dialogue));
            } else if attempts.is_empty() && !is_later_due {
                return Err(reason.unwrap_or_else(|| self.connect_error(&ErrorKind::HostUnreachable.into())));
            }
            tokio::select! {
                (pair, ended) = attempts.next_ended(), if !attempts.is_empty() => match ended {
                    Ok((opened, answered_in)) => {
                        self.note_success(pair, answered_in, &begun, reason);
                        return Ok(opened);
                    }
                    Err(Failed { reason: failed, is_final }) => {
                        self.history.note(pair, None);
                        if is_final {
                            return Err(failed);
                        }
                        reason = Some(failed);
                        is_held = false;
                        candidates.hurry();
                    }
                },
                more = &mut later, if is_later_due => {
                    is_later_due = false;
                    candidates.add(more);
                }
                () = sleep_until(candidates.due_at()), if candidates.has_more() && !is_held => {
                    is_held = has_sent_data.load(Ordering::Relaxed);
                    // The next connection asks before it sends data.
                    first.filter(|_| is_held).inspect(|pair| self.history.forget(*pair));
                }
            }
        }
    }

    /// Sends request and early data, if they have not gone out.
    ///
    /// # Errors
    /// If the client has disconnected, or the connection is broken.
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

    /// Connects, and sends no data before there is an answer.
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

    /// Connects, and sends all in one flight.
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

    /// Notes the pair that answered, and those that began before it and have not. `reason` is of the last one that failed.
    fn note_success(&self, pair: Pair, answered_in: Duration, begun: &[Pair], reason: Option<NotConnected>) {
        self.history.note(pair, Some(answered_in));
        let silent: Vec<_> = begun.iter().copied().take_while(|other| *other != pair).collect();
        for other in &silent {
            self.history.note(*other, None);
        }
        if let Some((to, from)) = silent.first() {
            let reason = reason.map_or_else(|| "no answer in time".to_owned(), |(_, reason)| reason);
            let from = from.map_or_else(String::new, |from| format!(" from {from}"));
            PASSED_OVER.say(format_args!(
                "the proxy {} ({to}) gives no valid answer{from}, and another address is used: {reason}",
                self.via.proxy
            ));
        }
    }

    /// Pairs in the order in which they are tried, our addresses, and the addresses of the proxy that are still looked up.
    async fn candidates(&self) -> io::Result<(Vec<Pair>, Vec<IpAddr>, Addresses)> {
        // A file with another text is refused.
        let (host, port) = host_and_port(&self.via.proxy).ok_or(ErrorKind::InvalidInput)?;
        let mut addresses = self.resolver.addresses(None, host, port).await?;
        let from = uplinks::addresses(&self.via.from)?;
        let mut order = pairs(&std::mem::take(&mut addresses.ready), &from);
        self.history.sort(&mut order);
        Ok((order, from, addresses))
    }

    /// A connection to it failed with this error.
    pub fn connect_error(&self, error: &io::Error) -> NotConnected {
        let (reply, reason) = connect_error(error);
        (reply, format!("the proxy {}: {reason}", self.via.proxy))
    }

    /// It does not do its part; `reason` is a predicate.
    pub fn refused(&self, reason: &str) -> NotConnected {
        (Reply::Failure, format!("the proxy {} {reason}", self.via.proxy))
    }

    /// It rejected the request and gave a reason.
    pub fn rejected(&self, reply: Reply, reason: impl core::fmt::Display) -> NotConnected {
        (reply, format!("the proxy {} reports: {reason}", self.via.proxy))
    }
}

/// The reply to a client for a connection that failed (RFC 1928 §6), and the text for the log.
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
