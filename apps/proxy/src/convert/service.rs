//! The converter: reads the messages of clients and connects to servers.

use super::admission::{Admission, Admitted};
use super::errors::{from_connect_error, is_forbidden_server};
use super::session::{Opening, OpeningError, read_opening};
use super::{ErrorCode, Malformed, TcpOption, Tlv, VERSION, emit, kernel};
use crate::config::{Convert, Limits};
use crate::error::Error;
use crate::limits::connection_table::ConnectionEntry;
use crate::limits::targets::Targets;
use crate::log::RateLimited;
use crate::relay::{StreamPrefixes, relay};
use crate::serve::Service;
use crate::stream::{StreamOptions, Transport, close_gracefully, write_all};
use crate::upstream::connect::connect_to;
use crate::watch;
use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

/// Rate limit for log lines about refused clients.
static REFUSED: RateLimited = RateLimited::new();
/// Rate limit for log lines about requests for denied servers.
static DENIED: RateLimited = RateLimited::new();
/// Rate limit for log lines about servers that could not be reached.
static NOT_REACHED: RateLimited = RateLimited::new();

/// Maximum length of the part of a client's message that an Error TLV returns: the maximum message minus the headers of
/// the message and of the TLV.
const MAX_ECHOED_BYTES: usize = 1020 - 8;

/// A converter.
pub struct Converter {
    settings: Convert,
    limits: Limits,
    admission: Admission,
    targets: Targets,
    upstream: Transport,
}

/// A client's request.
struct Request {
    /// Target and transport; `None` if the client only queries the supported TCP options.
    connect: Option<(SocketAddr, Transport)>,
    /// True if the client queries the supported TCP options.
    info: bool,
    /// Bytes for the target that have already been read.
    first: Vec<u8>,
}

/// Refusal of a client.
struct Refusal {
    /// TLVs to send to the client; if there are none, the connection is reset.
    answer: Vec<Tlv>,
    /// Rate limit and reason for a log line; `None` if the refusal is part of the normal exchange.
    log: Option<(&'static RateLimited, String)>,
}

impl Refusal {
    fn new(code: ErrorCode, value: &[u8], reason: impl Into<String>) -> Self {
        Self::of_kind(&REFUSED, code, value, reason)
    }

    fn of_kind(kind: &'static RateLimited, code: ErrorCode, value: &[u8], reason: impl Into<String>) -> Self {
        Self { answer: vec![Tlv::Error(code, value.to_vec())], log: Some((kind, reason.into())) }
    }

    /// Creates an error that contains the client's message after a zero byte (§6.2.8, figures 27 and 28).
    fn with_message(code: ErrorCode, message: &[u8], reason: impl Into<String>) -> Self {
        let message = &message[..message.len().min(MAX_ECHOED_BYTES)];
        Self::new(code, &[&[0], message].concat(), reason)
    }
}

impl Converter {
    /// Creates a converter from the settings.
    ///
    /// # Errors
    /// If the system's random generator fails.
    pub fn new(settings: Convert, limits: Limits) -> Result<Self, Error> {
        let admission = Admission::new(&settings)
            .map_err(|error| Error::Refused(format!("the system's random generator failed: {error}")))?;
        Ok(Self {
            admission,
            targets: Targets {
                allow: settings.allow.clone(),
                deny: settings.deny.clone(),
                nat64: settings.nat64.clone(),
            },
            upstream: if settings.multipath_upstream { Transport::multipath() } else { Transport::Tcp },
            settings,
            limits,
        })
    }

    /// Reads a client's request and checks its admission.
    async fn read_request(
        &self,
        client: &TcpStream,
        peer: SocketAddr,
        deadline: Instant,
    ) -> Result<Request, Refusal> {
        if !self.admission.permits_address(peer.ip()) {
            return Err(Refusal::new(
                ErrorCode::NotAuthorized,
                &[],
                "the address is not in a network of `clients`",
            ));
        }
        let Opening { tlvs, message, rest } = read_opening(client).await.map_err(refuse_invalid_message)?;
        let (mut connect, mut info, mut cookie, mut asked) = (None, false, None, Vec::new());
        for tlv in tlvs {
            match tlv {
                Tlv::Cookie(shown) => {
                    cookie = Some(shown);
                    continue;
                }
                Tlv::Info => info = true,
                Tlv::Connect { server, ref options } => connect = Some((server, options.clone())),
                other => {
                    let reason =
                        format!("sends a TLV of type {}, which only a converter may send", other.kind());
                    return Err(Refusal::with_message(ErrorCode::UnsupportedMessage, &message, reason));
                }
            }
            asked.push(tlv);
        }
        match self.admission.admit(peer.ip(), cookie.as_deref(), &asked, deadline).await {
            Admitted::Yes => {}
            Admitted::Missing(cookie) => return Err(require_cookie(cookie)),
            Admitted::No(reason) => return Err(Refusal::new(ErrorCode::NotAuthorized, &[], reason)),
            Admitted::Later(seconds, reason) => {
                return Err(Refusal::new(ErrorCode::ResourceExceeded, &[seconds], reason));
            }
        }
        let malformed = |reason: &str| Refusal::with_message(ErrorCode::MalformedMessage, &message, reason);
        let connect = match connect {
            Some((server, options)) => Some((server, self.choose_transport(server, &options, malformed)?)),
            None if info => None,
            None => return Err(malformed("contains no request")),
        };
        Ok(Request { connect, info, first: rest })
    }

    /// Checks that a server is permitted; returns the transport that supports the requested options.
    fn choose_transport(
        &self,
        server: SocketAddr,
        options: &[TcpOption],
        malformed: impl Fn(&str) -> Refusal,
    ) -> Result<Transport, Refusal> {
        // §6.2.5 forbids the no-operation option in a Connect TLV. The parser does not return the end of the list as an
        // option.
        if options.iter().any(TcpOption::is_no_operation) {
            return Err(malformed("contains a no-operation among the TCP options for a server"));
        }
        if !self.targets.permit(server.ip()) {
            let refusal = if is_forbidden_server(server.ip()) {
                malformed("")
            } else {
                Refusal::new(ErrorCode::NotAuthorized, &[], "")
            };
            let reason = format!(
                "{server} is not permitted: private address or denied; see allow and deny in [convert]"
            );
            return Err(Refusal { log: Some((&DENIED, reason)), ..refusal });
        }
        kernel::select_transport(options, self.upstream).map_err(|kinds| {
            let reason = format!("requests TCP options that cannot be set (kinds {kinds:?})");
            Refusal::new(ErrorCode::UnsupportedTcpOption, &kinds, reason)
        })
    }

    /// Connects to a server.
    async fn connect(&self, server: SocketAddr, transport: Transport) -> Result<TcpStream, Refusal> {
        let options = StreamOptions { transport, keep_alive: self.limits.keep_alive.duration() };
        let connecting = connect_to(server, None, options);
        let connected = timeout(self.limits.connect_timeout.duration(), connecting).await;
        connected.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())).map_err(|error: io::Error| {
            let (code, value) = from_connect_error(&error);
            Refusal::of_kind(&NOT_REACHED, code, &[value], format!("{server}: {error}"))
        })
    }
}

/// Creates the refusal of a client that sent no valid message. The answer to an unknown version has version 1.
fn refuse_invalid_message(no: OpeningError) -> Refusal {
    match no {
        OpeningError::Malformed(malformed, message) => {
            let reason = malformed.to_string();
            match malformed {
                Malformed::Version(_) => Refusal::new(ErrorCode::UnsupportedVersion, &[VERSION], reason),
                // §6.1 requires a reset for this error.
                Malformed::Length if message.is_empty() => {
                    Refusal { answer: Vec::new(), log: Some((&REFUSED, reason)) }
                }
                _ => Refusal::with_message(ErrorCode::MalformedMessage, &message, reason),
            }
        }
        OpeningError::Broken(error) => {
            let reason = format!("disconnected before its request was complete: {error}");
            Refusal { answer: Vec::new(), log: Some((&REFUSED, reason)) }
        }
    }
}

/// Creates the answer with the cookie that the client lacks, in a Cookie TLV and in the Error TLV: some clients read
/// the former (§6.2.7), others the latter (§6.2.8).
fn require_cookie(cookie: Vec<u8>) -> Refusal {
    let error = Tlv::Error(ErrorCode::MissingCookie, [&[0], &cookie[..]].concat());
    Refusal { answer: vec![error, Tlv::Cookie(cookie)], log: None }
}

/// Sends TLVs to a client; returns false if the client has disconnected.
async fn send_tlvs(client: &TcpStream, tlvs: &[Tlv]) -> bool {
    let message = emit(tlvs).expect("an answer is short");
    write_all(client, &message).await.is_ok()
}

/// Sends the last answer to a client and closes the connection.
async fn send_last_answer(client: TcpStream, answer: &[Tlv]) {
    // If there is no answer, the stream is dropped, which resets the connection.
    if !answer.is_empty() && send_tlvs(&client, answer).await {
        close_gracefully(client).await;
    }
}

impl Service for Converter {
    fn name(&self) -> &'static str {
        "convert"
    }

    fn supports_handover(&self) -> bool {
        true
    }

    fn client_sends_first(&self) -> bool {
        true
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.settings.listen.iter().map(|address| *address.as_ref()).collect()
    }

    async fn serve(&self, client: TcpStream, peer: SocketAddr, entry: &ConnectionEntry) {
        let deadline = Instant::now() + self.limits.handshake_timeout.duration();
        let asked = timeout_at(deadline, self.read_request(&client, peer, deadline)).await;
        let Request { connect, info, first } = match asked {
            Ok(Ok(request)) => request,
            Ok(Err(Refusal { answer, log })) => {
                if let Some((kind, reason)) = log {
                    kind.log_line(format_args!("convert: {}: {reason}", peer.ip()));
                }
                return send_last_answer(client, &answer).await;
            }
            Err(_) => {
                return REFUSED.log_line(format_args!(
                    "convert: {}: no complete request before handshake_timeout",
                    peer.ip()
                ));
            }
        };
        entry.admit(!self.settings.users.is_empty());
        let mut answer = Vec::new();
        if info {
            answer.push(Tlv::SupportedTcpExtensions(kernel::supported()));
        }
        let Some((target, transport)) = connect else { return send_last_answer(client, &answer).await };
        match self.connect(target, transport).await {
            Ok(server) => {
                answer.push(Tlv::ExtendedTcpHeader(kernel::syn_ack_options(&server)));
                if send_tlvs(&client, &answer).await {
                    let watched = watch::register(self.name(), peer, &target);
                    // Ignore errors: the relay has already reset both connections.
                    let first = StreamPrefixes { up: first, ..StreamPrefixes::default() };
                    let idle = self.limits.idle_timeout.duration();
                    drop(relay(client, server, first, &watched.carried, idle).await);
                }
            }
            Err(Refusal { answer, log }) => {
                if let Some((kind, reason)) = log {
                    kind.log_line(format_args!("convert: {reason}"));
                }
                send_last_answer(client, &answer).await;
            }
        }
    }
}
