//! The converter: takes clients' messages and connects them.

use super::admission::{Admission, Admitted};
use super::errors::{is_no_server, of_connecting};
use super::session::{NoMessage, Opening, opening};
use super::{ErrorCode, Malformed, TcpOption, Tlv, VERSION, emit, kernel};
use crate::config::{Convert, Limits};
use crate::connect::connect_to;
use crate::error::Error;
use crate::log::Limited;
use crate::occupants::Seat;
use crate::relay::{First, relay};
use crate::serve::Service;
use crate::stream::{StreamOptions, Transport, take_leave, write_all};
use crate::targets::Targets;
use crate::watch;
use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

static REFUSED: Limited = Limited::new();
static DENIED: Limited = Limited::new();
static NOT_REACHED: Limited = Limited::new();

/// Largest part of a message that is sent back in an error: the room beside the headers of message and error.
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
    /// The target and the transport; nothing if the client only asks for supported options.
    connect: Option<(SocketAddr, Transport)>,
    /// Whether it asks for supported options.
    info: bool,
    /// Bytes for the target that have been read already.
    first: Vec<u8>,
}

/// Why a client is not served.
struct Refusal {
    /// The answer; without one, the client is reset.
    says: Vec<Tlv>,
    /// The line for the log, if there is a fault.
    why: Option<(&'static Limited, String)>,
}

impl Refusal {
    fn new(code: ErrorCode, value: &[u8], why: impl Into<String>) -> Self {
        Self::of_kind(&REFUSED, code, value, why)
    }

    fn of_kind(kind: &'static Limited, code: ErrorCode, value: &[u8], why: impl Into<String>) -> Self {
        Self { says: vec![Tlv::Error(code, value.to_vec())], why: Some((kind, why.into())) }
    }

    /// Sends the message back, behind a byte of zero (§6.2.8, figures 27 and 28).
    fn with_message(code: ErrorCode, message: &[u8], why: impl Into<String>) -> Self {
        let message = &message[..message.len().min(MAX_ECHOED_BYTES)];
        Self::new(code, &[&[0], message].concat(), why)
    }
}

impl Converter {
    /// With these settings.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn new(settings: Convert, limits: Limits) -> Result<Self, Error> {
        let admission =
            Admission::new(&settings).map_err(|error| Error::Refused(format!("no randomness: {error}")))?;
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

    /// Reads what a client wants, if it may be here.
    async fn asked(
        &self,
        client: &TcpStream,
        peer: SocketAddr,
        deadline: Instant,
    ) -> Result<Request, Refusal> {
        if !self.admission.knows(peer.ip()) {
            return Err(Refusal::new(ErrorCode::NotAuthorized, &[], "is not of a network in clients"));
        }
        let Opening { tlvs, message, rest } = opening(client).await.map_err(without_message)?;
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
                    let why = format!("sends a part of type {}, which is not a client's", other.kind());
                    return Err(Refusal::with_message(ErrorCode::UnsupportedMessage, &message, why));
                }
            }
            asked.push(tlv);
        }
        match self.admission.admit(peer.ip(), cookie.as_deref(), &asked, deadline).await {
            Admitted::Yes => {}
            Admitted::Missing(cookie) => return Err(missing(cookie)),
            Admitted::No(why) => return Err(Refusal::new(ErrorCode::NotAuthorized, &[], why)),
            Admitted::Later(seconds, why) => {
                return Err(Refusal::new(ErrorCode::ResourceExceeded, &[seconds], why));
            }
        }
        let malformed = |why: &str| Refusal::with_message(ErrorCode::MalformedMessage, &message, why);
        let connect = match connect {
            Some((server, options)) => Some((server, self.judge(server, &options, malformed)?)),
            None if info => None,
            None => return Err(malformed("wants nothing")),
        };
        Ok(Request { connect, info, first: rest })
    }

    /// By what a server is to be reached, if it may be and can be.
    fn judge(
        &self,
        server: SocketAddr,
        options: &[TcpOption],
        malformed: impl Fn(&str) -> Refusal,
    ) -> Result<Transport, Refusal> {
        // §6.2.5: a no-operation has no place there; the end of a list was not read as an option.
        if options.iter().any(TcpOption::is_no_operation) {
            return Err(malformed("puts a no-operation among the options of a server"));
        }
        if !self.targets.permit(server.ip()) {
            let refusal = if is_no_server(server.ip()) {
                malformed("")
            } else {
                Refusal::new(ErrorCode::NotAuthorized, &[], "")
            };
            let why = format!("{server} is private or denied (allow, deny) in [convert]");
            return Err(Refusal { why: Some((&DENIED, why)), ..refusal });
        }
        kernel::transport(options, self.upstream).map_err(|kinds| {
            let why = format!("asks for TCP options that cannot be set: {kinds:?}");
            Refusal::new(ErrorCode::UnsupportedTcpOption, &kinds, why)
        })
    }

    /// Connects to a server, or says why not.
    async fn connect(&self, server: SocketAddr, transport: Transport) -> Result<TcpStream, Refusal> {
        let options = StreamOptions { transport, keep_alive: self.limits.keep_alive.duration() };
        let connecting = connect_to(server, None, options);
        let connected = timeout(self.limits.connect_timeout.duration(), connecting).await;
        connected.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())).map_err(|error: io::Error| {
            let (code, value) = of_connecting(&error);
            Refusal::of_kind(&NOT_REACHED, code, &[value], format!("{server}: {error}"))
        })
    }
}

/// A client with malformed bytes gets an error in our version.
fn without_message(no: NoMessage) -> Refusal {
    match no {
        NoMessage::Malformed(malformed, message) => {
            let why = malformed.to_string();
            match malformed {
                Malformed::Version(_) => Refusal::new(ErrorCode::UnsupportedVersion, &[VERSION], why),
                // §6.1: such a connection is reset.
                Malformed::Length if message.is_empty() => {
                    Refusal { says: Vec::new(), why: Some((&REFUSED, why)) }
                }
                _ => Refusal::with_message(ErrorCode::MalformedMessage, &message, why),
            }
        }
        NoMessage::Broken(error) => {
            let why = format!("disconnected before its request was complete: {error}");
            Refusal { says: Vec::new(), why: Some((&REFUSED, why)) }
        }
    }
}

/// The missing cookie, in a TLV and in the error: clients after §6.2.7 read the TLV, clients after §6.2.8 the error.
fn missing(cookie: Vec<u8>) -> Refusal {
    let error = Tlv::Error(ErrorCode::MissingCookie, [&[0], &cookie[..]].concat());
    Refusal { says: vec![error, Tlv::Cookie(cookie)], why: None }
}

/// Sends TLVs to a client; false if it has disconnected.
async fn tell(client: &TcpStream, tlvs: &[Tlv]) -> bool {
    let message = emit(tlvs).expect("an answer is short");
    write_all(client, &message).await.is_ok()
}

/// Sends the last answer to a client.
async fn say_last(client: TcpStream, says: &[Tlv]) {
    // Without an answer, dropping the stream resets it.
    if !says.is_empty() && tell(&client, says).await {
        take_leave(client).await;
    }
}

impl Service for Converter {
    fn name(&self) -> &'static str {
        "convert"
    }

    fn hands_over(&self) -> bool {
        true
    }

    fn client_begins(&self) -> bool {
        true
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.settings.listen.iter().map(|address| *address.as_ref()).collect()
    }

    async fn serve(&self, client: TcpStream, peer: SocketAddr, seat: &Seat) {
        let deadline = Instant::now() + self.limits.handshake_timeout.duration();
        let asked = timeout_at(deadline, self.asked(&client, peer, deadline)).await;
        let Request { connect, info, first } = match asked {
            Ok(Ok(request)) => request,
            Ok(Err(Refusal { says, why })) => {
                if let Some((kind, why)) = why {
                    kind.say(format_args!("convert: {}: {why}", peer.ip()));
                }
                return say_last(client, &says).await;
            }
            Err(_) => {
                return REFUSED.say(format_args!(
                    "convert: {}: no complete request before handshake_timeout",
                    peer.ip()
                ));
            }
        };
        seat.admit(!self.settings.users.is_empty());
        let mut answer = Vec::new();
        if info {
            answer.push(Tlv::SupportedTcpExtensions(kernel::supported()));
        }
        let Some((target, transport)) = connect else { return say_last(client, &answer).await };
        match self.connect(target, transport).await {
            Ok(server) => {
                answer.push(Tlv::ExtendedTcpHeader(kernel::answered(&server)));
                if tell(&client, &answer).await {
                    let watched = watch::open(self.name(), peer, &target);
                    // Ignore errors: both ends have been reset.
                    let first = First { up: first, down: Vec::new() };
                    let idle = self.limits.idle_timeout.duration();
                    drop(relay(client, server, first, &watched.carried, idle).await);
                }
            }
            Err(Refusal { says, why }) => {
                if let Some((kind, why)) = why {
                    kind.say(format_args!("convert: {why}"));
                }
                say_last(client, &says).await;
            }
        }
    }
}
