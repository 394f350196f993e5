//! The SOCKS proxy: reads the requests of clients and connects to servers.

use super::association::{ClientSide, bind_beside};
use super::session::{Refusal, Request, accept, answer};
use super::via::UpstreamSide;
use super::wire::{Command, Reply, Target};
use crate::auth::login::{LoginResult, Logins};
use crate::config::{Limits, Socks};
use crate::datagrams::{Datagram, Exit, Framed, PathsSide, Side, relay_datagrams};
use crate::error::Error;
use crate::limits::connection_table::ConnectionEntry;
use crate::limits::descriptors::max_associations;
use crate::limits::targets::Targets;
use crate::log::RateLimited;
use crate::relay::{StreamPrefixes, relay};
use crate::serve::Service;
use crate::stream::{StreamOptions, Transport, close_gracefully};
use crate::upstream::connect::connect;
use crate::upstream::protocols::Upstream;
use crate::upstream::proxy::{Connected, NotConnected, connect_error, within_connect_timeout};
use crate::upstream::resolver::{Addresses, Client, Resolver};
use crate::watch;
use core::fmt::Display;
use core::net::{Ipv6Addr, SocketAddr};
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

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
    /// One permit per UDP association.
    associations: Semaphore,
}

/// The servers' side of a UDP association.
enum ServersSide<'a> {
    Exit(Box<Exit<'a>>),
    Upstream(UpstreamSide),
}

impl Side for ServersSide<'_> {
    async fn receive(&mut self) -> io::Result<Datagram> {
        match self {
            Self::Exit(exit) => exit.receive().await,
            Self::Upstream(proxy) => proxy.receive().await,
        }
    }

    fn send(&mut self, datagram: Datagram) {
        match self {
            Self::Exit(exit) => exit.send(datagram),
            Self::Upstream(proxy) => proxy.send(datagram),
        }
    }
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
        let udp = settings.via.as_ref().and_then(|via| via.as_ref().udp);
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
            associations: Semaphore::new(max_associations(&limits, udp).min(Semaphore::MAX_PERMITS)),
            settings,
            limits,
        })
    }

    /// Connects to a client's target. An upstream proxy receives the client's early data together with the request.
    async fn connect_to_target(
        &self,
        client: &Client,
        target: &Target,
        first: &mut Vec<u8>,
    ) -> Result<Connected, NotConnected> {
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
        within_connect_timeout(&self.limits, connecting).await
    }

    /// Serves a connection to a server until it ends.
    async fn serve_stream(&self, client: TcpStream, peer: SocketAddr, account: &Client, request: Request) {
        let Request { target, mut first, .. } = request;
        let Connected { server, bound, first: down } =
            match self.connect_to_target(account, &target, &mut first).await {
                Ok(connected) => connected,
                Err(refusal) => return refuse(client, &target, refusal).await,
            };
        if answer(&client, Reply::Succeeded, bound).await.is_ok() {
            let watched = watch::register(self.name(), peer, &target);
            // Ignore errors: the relay has already reset both connections.
            let idle = self.limits.idle_timeout.duration();
            drop(
                relay(
                    client,
                    server,
                    StreamPrefixes { up: first, down, ..StreamPrefixes::default() },
                    &watched.carried,
                    idle,
                )
                .await,
            );
        }
    }

    /// Opens the servers' side of a UDP association.
    async fn open_servers_side(&self, account: &Client) -> Result<ServersSide<'_>, NotConnected> {
        if !self.settings.udp {
            return Err((Reply::CommandNotSupported, "UDP is refused because of udp = false".to_owned()));
        }
        let Some(via) = &self.via else {
            return Ok(ServersSide::Exit(Box::new(Exit::new(
                &self.targets,
                &self.resolver,
                account.clone(),
            ))));
        };
        let opening = via.open_datagrams(|| Ok(Vec::new()));
        Ok(ServersSide::Upstream(within_connect_timeout(&self.limits, opening).await?))
    }

    /// Serves a UDP association until its TCP connection ends, or its stream of datagrams.
    async fn serve_datagrams(&self, client: TcpStream, peer: SocketAddr, account: &Client, request: Request) {
        let opening = async {
            let full = || (Reply::Failure, "too many UDP associations; see max_connections".to_owned());
            let permit = self.associations.try_acquire().map_err(|_| full())?;
            Ok((permit, self.open_servers_side(account).await?))
        };
        let (_permit, mut far) = match opening.await {
            Ok(opened) => opened,
            Err(refusal) => return refuse(client, &"UDP", refusal).await,
        };
        let watched = watch::register(self.name(), peer, &"UDP");
        let idle = self.limits.idle_timeout.duration();
        // The reason of the end is ignored: the client or the other proxy has disconnected, or sees a reset.
        match request.command {
            Command::Datagrams => {
                if answer(&client, Reply::Succeeded, None).await.is_ok() {
                    let mut near = Framed::new(Arc::new(client), request.first);
                    relay_datagrams(&mut near, &mut far, &watched.carried, idle).await;
                }
            }
            Command::DatagramPaths => {
                if let Some(mut near) = self.open_paths(client, account, request).await {
                    relay_datagrams(&mut near, &mut far, &watched.carried, idle).await;
                }
            }
            _ => {
                let opened = ClientSide::open(&client, peer, &request.target);
                match opened.and_then(|near| Ok((near.address()?, near))) {
                    Ok((bound, mut near)) => {
                        if answer(&client, Reply::Succeeded, Some(bound)).await.is_ok() {
                            relay_datagrams(&mut near, &mut far, &watched.carried, idle).await;
                        }
                    }
                    Err(error) => refuse(client, &"UDP", connect_error(&error)).await,
                }
            }
        }
    }

    /// Opens the side of another proxy that sends datagrams over several paths; answers its request.
    async fn open_paths(&self, client: TcpStream, account: &Client, request: Request) -> Option<PathsSide> {
        let mut own = [0; 16];
        let opened = getrandom::fill(&mut own).map_err(io::Error::other);
        let opened = opened.and_then(|()| bind_beside(&client));
        let opened = opened.and_then(|socket| Ok((socket.local_addr()?.port(), socket)));
        let (port, socket) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                refuse(client, &"UDP", connect_error(&error)).await;
                return None;
            }
        };
        let keys = match (account, &request.target, &self.logins) {
            (Client::User(name), Target::Address(SocketAddr::V6(nonce)), Some(logins)) => {
                logins.datagram_keys(name, &nonce.ip().octets(), &own)
            }
            _ => None,
        };
        let Some(keys) = keys else {
            let reason = "datagrams over several paths need a login, and a random number in the request";
            refuse(client, &"UDP", (Reply::Denied, reason.to_owned())).await;
            return None;
        };
        // The random number takes the place of the address, which the other proxy knows.
        answer(&client, Reply::Succeeded, Some((Ipv6Addr::from(own), port).into())).await.ok()?;
        Some(PathsSide::of_client(Framed::new(Arc::new(client), request.first), keys, socket))
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
        let mut request = match accepted {
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
        entry.admit(request.user.is_some());
        let account = Client::new(request.user.take(), peer.ip());
        match request.command {
            Command::Connect => self.serve_stream(client, peer, &account, request).await,
            Command::UdpAssociate | Command::Datagrams | Command::DatagramPaths => {
                self.serve_datagrams(client, peer, &account, request).await;
            }
            Command::Bind | Command::Other(_) => {
                let reason = "BIND and other commands are not supported; only CONNECT and UDP ASSOCIATE are";
                let refusal = (Reply::CommandNotSupported, reason.to_owned());
                refuse(client, &request.target, refusal).await;
            }
        }
    }
}

/// Logs the reason of a refusal, and answers the client.
async fn refuse(client: TcpStream, target: &impl Display, (reply, reason): NotConnected) {
    // Each kind of reply has its own rate limit, so that many lines of one kind do not suppress those of another.
    let kind = match reply {
        Reply::Denied => &DENIED,
        Reply::CommandNotSupported => &NO_SUCH_COMMAND,
        _ => &NOT_REACHED,
    };
    kind.log_line(format_args!("socks: {target}: {reason}"));
    // Ignore errors: the client has disconnected.
    drop(answer(&client, reply, None).await);
    close_gracefully(client).await;
}
