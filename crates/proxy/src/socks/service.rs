//! The proxy: takes clients' requests and connects them.

use super::session::{Request, accept, answer};
use super::via::{Connected, NotConnected, Upstream, failed};
use super::wire::{Command, Reply, Target};
use crate::config::{Limits, Socks};
use crate::connect::connect;
use crate::error::Error;
use crate::log::Limited;
use crate::login::Logins;
use crate::relay::{Carried, First, relay};
use crate::serve::Service;
use crate::stream::{Transport, take_leave};
use crate::targets::Targets;
use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

static REFUSED: Limited = Limited::new();
static DENIED: Limited = Limited::new();
static NOT_REACHED: Limited = Limited::new();
static NO_DATAGRAMS: Limited = Limited::new();

/// A SOCKS 5 proxy.
pub struct Proxy {
    settings: Socks,
    limits: Limits,
    logins: Option<Logins>,
    targets: Targets,
    upstream: Transport,
    via: Option<Upstream>,
}

impl Proxy {
    /// With these settings.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn new(settings: Socks, limits: Limits) -> Result<Self, Error> {
        let users = settings.users.iter().map(AsRef::as_ref);
        let logins = Logins::new(users).map_err(|error| Error::Refused(format!("no randomness: {error}")))?;
        Ok(Self {
            logins: (!settings.users.is_empty()).then_some(logins),
            targets: Targets { allow: settings.allow.clone(), deny: settings.deny.clone() },
            upstream: if settings.multipath_upstream { Transport::multipath() } else { Transport::Tcp },
            via: settings.via.as_ref().map(|via| Upstream::new(via.as_ref().clone())),
            settings,
            limits,
        })
    }

    /// Connects to what a client wants, or says why not.
    async fn fulfil(&self, command: Command, target: &Target) -> Result<Connected, NotConnected> {
        match command {
            Command::Connect => {}
            Command::UdpAssociate => {
                NO_DATAGRAMS.say(format_args!(
                    "socks: clients want datagrams (UDP ASSOCIATE), which are not carried"
                ));
                return Err((Reply::CommandNotSupported, "datagrams are not carried".to_owned()));
            }
            Command::Bind | Command::Other(_) => {
                return Err((Reply::CommandNotSupported, "only connections to servers are made".to_owned()));
            }
        }
        let connecting = async {
            if let Some(via) = &self.via {
                return via.connect(target, || Ok(Vec::new())).await;
            }
            let addresses = resolve(target).await.map_err(|error| failed(&error))?;
            let allowed: Vec<_> =
                addresses.iter().copied().filter(|address| self.targets.permit(address.ip())).collect();
            if allowed.is_empty() {
                DENIED
                    .say(format_args!("socks: {target} is private or denied; see allow and deny in [socks]"));
                return Err((Reply::Denied, "it is private or denied".to_owned()));
            }
            let server = connect(&allowed, &[], self.upstream).await.map_err(|error| failed(&error))?;
            Ok(Connected { bound: server.local_addr().ok(), server, first: Vec::new() })
        };
        timeout(self.limits.connect_timeout.duration(), connecting)
            .await
            .unwrap_or_else(|_| Err((Reply::TimedOut, "nobody answered in time".to_owned())))
    }
}

impl Service for Proxy {
    fn name(&self) -> &'static str {
        "socks"
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.settings.listen.iter().map(|address| *address.as_ref()).collect()
    }

    async fn serve(&self, client: TcpStream, peer: SocketAddr) {
        let deadline = Instant::now() + self.limits.handshake_timeout.duration();
        let asked = timeout_at(deadline, accept(&client, peer.ip(), self.logins.as_ref(), deadline)).await;
        let Request { command, target, first } = match asked {
            Ok(Ok(request)) => request,
            Ok(Err(refusal)) => {
                REFUSED.say(format_args!("socks: {}: {refusal}", peer.ip()));
                return take_leave(client).await;
            }
            Err(_) => {
                return REFUSED.say(format_args!("socks: {}: took too long to say what it wants", peer.ip()));
            }
        };
        let Connected { server, bound, first: down } = match self.fulfil(command, &target).await {
            Ok(connected) => connected,
            Err((reply, reason)) => {
                NOT_REACHED.say(format_args!("socks: {target}: {reason}"));
                // A client that has gone need not be told.
                drop(answer(&client, reply, None).await);
                return take_leave(client).await;
            }
        };
        if answer(&client, Reply::Succeeded, bound).await.is_ok() {
            // Both ends have been told of its failure.
            drop(relay(client, server, First { up: first, down }, &Carried::default()).await);
        }
    }
}

async fn resolve(target: &Target) -> io::Result<Vec<SocketAddr>> {
    match target {
        Target::Address(address) => Ok(vec![*address]),
        Target::Name(name, port) => {
            let unknown = |error| io::Error::new(ErrorKind::HostUnreachable, error);
            Ok(tokio::net::lookup_host((name.as_str(), *port)).await.map_err(unknown)?.collect())
        }
    }
}
