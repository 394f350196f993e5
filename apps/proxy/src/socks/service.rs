//! The SOCKS proxy: reads the requests of clients and connects to servers.

use super::session::{Refusal, Request, accept, answer};
use super::wire::{Command, Reply, Target};
use crate::config::{Limits, Socks};
use crate::connect::connect;
use crate::connection_table::ConnectionEntry;
use crate::error::Error;
use crate::log::RateLimited;
use crate::login::{LoginResult, Logins};
use crate::relay::{First, relay};
use crate::resolver::{Addresses, Client, Resolver};
use crate::serve::Service;
use crate::stream::{StreamOptions, Transport, close_gracefully};
use crate::targets::Targets;
use crate::upstream::Upstream;
use crate::upstream_proxy::{Connected, NotConnected, connect_error};
use crate::watch;
use core::net::SocketAddr;
use std::io;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

/// Rate limit for log lines about refused clients.
static REFUSED: RateLimited = RateLimited::new();
/// Rate limit for log lines about requests for denied servers.
static DENIED: RateLimited = RateLimited::new();
/// Rate limit for log lines about unsupported commands.
static NO_SUCH_COMMAND: RateLimited = RateLimited::new();
/// Rate limit for log lines about servers that could not be reached.
static NOT_REACHED: RateLimited = RateLimited::new();

/// A SOCKS 5 proxy.
pub struct Proxy {
    settings: Socks,
    limits: Limits,
    logins: Option<Logins>,
    targets: Targets,
    upstream: Transport,
    via: Option<Upstream>,
    resolver: Resolver,
}

impl Proxy {
    /// Creates a proxy from the settings.
    ///
    /// # Errors
    /// If the system's random generator fails.
    pub fn new(settings: Socks, limits: Limits) -> Result<Self, Error> {
        let users = settings.users.iter().map(AsRef::as_ref);
        let logins = Logins::new(users)
            .map_err(|error| Error::Refused(format!("the system's random generator failed: {error}")))?;
        Ok(Self {
            logins: (!settings.users.is_empty()).then_some(logins),
            targets: Targets {
                allow: settings.allow.clone(),
                deny: settings.deny.clone(),
                nat64: settings.nat64.clone(),
            },
            upstream: if settings.multipath_upstream { Transport::multipath() } else { Transport::Tcp },
            via: settings.via.as_ref().map(|via| Upstream::new(via.as_ref().clone(), &limits)),
            resolver: Resolver::new(limits.connect_timeout.duration()),
            settings,
            limits,
        })
    }

    /// Connects to a client's target. An upstream proxy receives the client's early data together with the request.
    async fn connect_to_target(
        &self,
        client: &Client,
        command: Command,
        target: &Target,
        first: &mut Vec<u8>,
    ) -> Result<Connected, NotConnected> {
        match command {
            Command::Connect => {}
            Command::UdpAssociate => {
                let message = "UDP ASSOCIATE is not supported; only CONNECT is";
                return Err((Reply::CommandNotSupported, message.to_owned()));
            }
            Command::Bind | Command::Other(_) => {
                return Err((
                    Reply::CommandNotSupported,
                    "BIND and other commands are not supported; only CONNECT is".to_owned(),
                ));
            }
        }
        let connecting = async {
            if let Some(via) = &self.via {
                return via.connect(target, || Ok(std::mem::take(first))).await;
            }
            let mut addresses = self.resolve(client, target).await.map_err(|error| connect_error(&error))?;
            let check_permission = |mut addresses: Vec<SocketAddr>| {
                addresses.retain(|address| self.targets.permit(address.ip()));
                addresses
            };
            let mut allowed = check_permission(std::mem::take(&mut addresses.ready));
            if allowed.is_empty() {
                allowed = check_permission(addresses.later().await);
            }
            if allowed.is_empty() {
                let reason = "not permitted: private address or denied; see allow and deny in [socks]";
                return Err((Reply::Denied, reason.to_owned()));
            }
            let later = async { check_permission(addresses.later().await) };
            let server = connect(&allowed, later, &[], self.upstream_options()).await;
            let server = server.map_err(|error| connect_error(&error))?;
            Ok(Connected { bound: server.local_addr().ok(), server, first: Vec::new() })
        };
        timeout(self.limits.connect_timeout.duration(), connecting)
            .await
            .unwrap_or_else(|_| Err((Reply::TimedOut, "no answer before connect_timeout".to_owned())))
    }

    const fn upstream_options(&self) -> StreamOptions {
        StreamOptions { transport: self.upstream, keep_alive: self.limits.keep_alive.duration() }
    }

    async fn resolve(&self, client: &Client, target: &Target) -> io::Result<Addresses> {
        match target {
            Target::Address(address) => Ok(vec![*address].into()),
            Target::Name(name, port) => self.resolver.addresses(Some(client.clone()), name, *port).await,
        }
    }
}

impl Service for Proxy {
    fn name(&self) -> &'static str {
        "socks"
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
        let accepted = timeout_at(deadline, accept(&client, peer.ip(), self.logins.as_ref(), deadline)).await;
        let Request { user, command, target, mut first } = match accepted {
            Ok(Ok(request)) => request,
            // Not logged: the client has only probed the proxy, or it connects again at once with a proof for the right
            // epoch.
            Ok(Err(Refusal::NotAdmitted(LoginResult::OtherEpoch(_)) | Refusal::OnlyGreeted)) => {
                return close_gracefully(client).await;
            }
            Ok(Err(refusal)) => {
                REFUSED.log_line(format_args!("socks: {}: {refusal}", peer.ip()));
                return close_gracefully(client).await;
            }
            Err(_) => {
                return REFUSED.log_line(format_args!(
                    "socks: {}: no complete request before handshake_timeout",
                    peer.ip()
                ));
            }
        };
        entry.admit(user.is_some());
        let account = Client::new(user, peer.ip());
        let connecting = self.connect_to_target(&account, command, &target, &mut first).await;
        let Connected { server, bound, first: down } = match connecting {
            Ok(connected) => connected,
            Err((reply, reason)) => {
                // Each kind of reply has its own rate limit, so that many lines of one kind do not suppress those of
                // another.
                let kind = match reply {
                    Reply::Denied => &DENIED,
                    Reply::CommandNotSupported => &NO_SUCH_COMMAND,
                    _ => &NOT_REACHED,
                };
                kind.log_line(format_args!("socks: {target}: {reason}"));
                // Ignore errors: the client has disconnected.
                drop(answer(&client, reply, None).await);
                return close_gracefully(client).await;
            }
        };
        if answer(&client, Reply::Succeeded, bound).await.is_ok() {
            let watched = watch::register(self.name(), peer, &target);
            // Ignore errors: the relay has already reset both connections.
            let idle = self.limits.idle_timeout.duration();
            drop(
                relay(client, server, First { up: first, down, ..First::default() }, &watched.carried, idle)
                    .await,
            );
        }
    }
}
