//! The proxy: takes clients' requests and connects them.

use super::session::{Refusal, Request, accept, answer};
use super::wire::{Command, Reply, Target};
use crate::config::{Limits, Socks};
use crate::connect::connect;
use crate::error::Error;
use crate::log::Limited;
use crate::login::{Logins, Tried};
use crate::occupants::Seat;
use crate::relay::{First, relay};
use crate::resolver::{Addresses, Client, Resolver};
use crate::serve::Service;
use crate::stream::{StreamOptions, Transport, take_leave};
use crate::targets::Targets;
use crate::upstream::Upstream;
use crate::upstream_proxy::{Connected, NotConnected, connect_error};
use crate::watch;
use core::net::SocketAddr;
use std::io;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

static REFUSED: Limited = Limited::new();
static DENIED: Limited = Limited::new();
static NO_SUCH_COMMAND: Limited = Limited::new();
static NOT_REACHED: Limited = Limited::new();

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
    /// With these settings.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn new(settings: Socks, limits: Limits) -> Result<Self, Error> {
        let users = settings.users.iter().map(AsRef::as_ref);
        let logins = Logins::new(users).map_err(|error| Error::Refused(format!("no randomness: {error}")))?;
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

    /// Connects to a client's target. Bytes after the request go to another proxy together with the request, if there is one.
    async fn fulfil(
        &self,
        client: &Client,
        command: Command,
        target: &Target,
        first: &mut Vec<u8>,
    ) -> Result<Connected, NotConnected> {
        match command {
            Command::Connect => {}
            Command::UdpAssociate => {
                let said = "datagrams (UDP ASSOCIATE) are not carried";
                return Err((Reply::CommandNotSupported, said.to_owned()));
            }
            Command::Bind | Command::Other(_) => {
                return Err((Reply::CommandNotSupported, "only connections to servers are made".to_owned()));
            }
        }
        let connecting = async {
            if let Some(via) = &self.via {
                return via.connect(target, || Ok(std::mem::take(first))).await;
            }
            let mut addresses = self.resolve(client, target).await.map_err(|error| connect_error(&error))?;
            let permitted = |mut addresses: Vec<SocketAddr>| {
                addresses.retain(|address| self.targets.permit(address.ip()));
                addresses
            };
            let mut allowed = permitted(std::mem::take(&mut addresses.ready));
            if allowed.is_empty() {
                allowed = permitted(addresses.later().await);
            }
            if allowed.is_empty() {
                let reason = "is private or denied (allow, deny) in [socks]";
                return Err((Reply::Denied, reason.to_owned()));
            }
            let later = async { permitted(addresses.later().await) };
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
        let asked = timeout_at(deadline, accept(&client, peer.ip(), self.logins.as_ref(), deadline)).await;
        let Request { user, command, target, mut first } = match asked {
            Ok(Ok(request)) => request,
            // Neither is an error: the client comes again at once, or has only asked whether a proxy answers.
            Ok(Err(Refusal::NotAdmitted(Tried::Epoch(_)) | Refusal::OnlyGreeted)) => {
                return take_leave(client).await;
            }
            Ok(Err(refusal)) => {
                REFUSED.say(format_args!("socks: {}: {refusal}", peer.ip()));
                return take_leave(client).await;
            }
            Err(_) => {
                return REFUSED
                    .say(format_args!("socks: {}: no complete request before handshake_timeout", peer.ip()));
            }
        };
        seat.admit(user.is_some());
        let account = Client::new(user, peer.ip());
        let fulfilled = self.fulfil(&account, command, &target, &mut first).await;
        let Connected { server, bound, first: down } = match fulfilled {
            Ok(connected) => connected,
            Err((reply, reason)) => {
                // A kind of line each: many of one do not keep the first of another from being said.
                let kind = match reply {
                    Reply::Denied => &DENIED,
                    Reply::CommandNotSupported => &NO_SUCH_COMMAND,
                    _ => &NOT_REACHED,
                };
                kind.say(format_args!("socks: {target}: {reason}"));
                // Ignore errors: the client has disconnected.
                drop(answer(&client, reply, None).await);
                return take_leave(client).await;
            }
        };
        if answer(&client, Reply::Succeeded, bound).await.is_ok() {
            let watched = watch::open(self.name(), peer, &target);
            // Ignore errors: both ends have been reset.
            let idle = self.limits.idle_timeout.duration();
            drop(relay(client, server, First { up: first, down }, &watched.carried, idle).await);
        }
    }
}
