//! The reverse proxy: relays each client to a server.

use super::balance::{Endpoint, OpenConnection};
use super::first_bytes::{Refusal, read_header, read_host};
use super::header::{self, Addresses};
use super::health::{Common, Servers};
use super::host_names::HostNames;
use crate::config::{Host, Limits, Reverse, WeightedServer};
use crate::error::Error;
use crate::limits::connection_table::ConnectionEntry;
use crate::log::RateLimited;
use crate::relay::{MayRelay, StreamPrefixes, relay};
use crate::serve::Service;
use crate::stream::{StreamOptions, Transport, write_all};
use crate::upstream::connect::attempt_in_order;
use crate::watch;
use core::future::ready;
use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::timeout;
use toml::Spanned;

static NO_SERVER: RateLimited = RateLimited::new();
static NO_HOST: RateLimited = RateLimited::new();
static REFUSED: RateLimited = RateLimited::new();

/// A reverse proxy.
pub struct Proxy {
    settings: Reverse,
    limits: Limits,
    /// Servers for clients that request no host of the file; `None` if such clients are reset.
    default: Option<Servers>,
    hosts: Vec<Servers>,
    /// Host names, each with the position of its servers in `hosts`.
    names: HostNames<usize>,
    options: StreamOptions,
}

impl Proxy {
    /// Creates a reverse proxy from its settings.
    pub fn new(settings: Reverse, limits: Limits) -> Self {
        let options = StreamOptions { transport: Transport::Tcp, keep_alive: limits.keep_alive.duration() };
        let servers = |name: String, servers: &[Spanned<WeightedServer>]| {
            let common = Common {
                name,
                listen: settings.listen.clone(),
                proxy_protocol: settings.proxy_protocol,
                connect_timeout: limits.connect_timeout.duration(),
                options,
            };
            let servers: Vec<_> = servers.iter().map(|server| server.as_ref().clone()).collect();
            Servers::new(&common, &servers, settings.balance)
        };
        let default = (!settings.to.is_empty()).then(|| servers(settings.name.clone(), &settings.to));
        let of_host = |host: &Host| {
            let first = host.names.first().map_or("", |name| name.as_ref());
            servers(format!("{}: host {first}", settings.name), &host.to)
        };
        let hosts = settings.hosts.iter().map(of_host).collect();
        let names =
            settings.hosts.iter().enumerate().flat_map(|(number, host)| {
                host.names.iter().map(move |name| (name.as_ref().clone(), number))
            });
        let names = HostNames::new(names);
        Self { settings, limits, default, hosts, names, options }
    }

    fn lists(&self) -> impl Iterator<Item = &Servers> {
        self.default.iter().chain(&self.hosts)
    }

    /// Returns the address of a client and the proxy's address to which it connected: from the PROXY header, if the
    /// client is a proxy that sends one. Appends to `read` those bytes after the header that were read with it.
    async fn addresses_of(
        &self,
        client: &TcpStream,
        peer: SocketAddr,
        read: &mut Vec<u8>,
    ) -> Result<Addresses, Refusal> {
        let direct = (peer, client.local_addr().map_err(Refusal::Broken)?);
        if !self.needs_header(peer) {
            return Ok(direct);
        }
        let max_wait = self.limits.handshake_timeout.duration();
        Ok(read_header(client, max_wait, read).await?.unwrap_or(direct))
    }

    /// True if connections from an address begin with a PROXY header.
    fn needs_header(&self, peer: SocketAddr) -> bool {
        let source = peer.ip().to_canonical();
        self.settings.accept_proxy.iter().any(|network| network.contains(source))
    }

    /// True if a client must not send a PROXY header.
    fn refuses_header(&self, peer: SocketAddr) -> bool {
        !self.settings.accept_proxy.is_empty() && !self.needs_header(peer)
    }

    /// Chooses the list of servers for a client; `None` if the requested host has no servers. Appends to `read` the
    /// bytes that were read to find out the host.
    async fn choose_list(
        &self,
        client: &TcpStream,
        peer: SocketAddr,
        read: &mut Vec<u8>,
    ) -> Result<Option<&Servers>, Refusal> {
        if self.hosts.is_empty() {
            return Ok(self.default.as_ref());
        }
        let host = read_host(client, read).await?;
        let number = host.as_ref().and_then(|host| self.names.find(host));
        let list = number.map(|number| &self.hosts[*number]).or(self.default.as_ref());
        if list.is_none() {
            NO_HOST.log_line(format_args!(
                "{}: no servers for the host {} that {} requests",
                self.settings.name,
                host.as_deref().unwrap_or("(none)"),
                peer.ip(),
            ));
        }
        Ok(list)
    }

    /// Reads the client's first bytes, if the settings need a PROXY header or a host name. Returns `None`, and logs the
    /// reason, if the caller must reset the client.
    async fn receive(
        &self,
        client: &TcpStream,
        peer: SocketAddr,
        read: &mut Vec<u8>,
    ) -> Option<(Addresses, &Servers)> {
        let receiving = async {
            let addresses = self.addresses_of(client, peer, read).await?;
            Ok(self.choose_list(client, peer, read).await?.map(|servers| (addresses, servers)))
        };
        receiving.await.unwrap_or_else(|refusal| {
            if !matches!(refusal, Refusal::Broken(_)) {
                REFUSED.log_line(format_args!("{}: {} {refusal}", self.settings.name, peer.ip()));
            }
            None
        })
    }

    /// Connects to the first server that answers. Attempts start one after another; the first is to the server that
    /// `balance` chooses.
    async fn connect(
        &self,
        servers: &Servers,
        client: SocketAddr,
    ) -> io::Result<(TcpStream, Option<OpenConnection>)> {
        let (order, mut open) = servers.choose(client.ip());
        let pairs = order.iter().map(|endpoint| (endpoint.address, None)).collect();
        let connecting = attempt_in_order(pairs, ready(Vec::new()), self.options);
        let server = timeout(self.limits.connect_timeout.duration(), connecting).await??;
        let to = server.peer_addr()?;
        let is_connected = |endpoint: &&Arc<Endpoint>| {
            (endpoint.address.ip().to_canonical(), endpoint.address.port()) == (to.ip(), to.port())
        };
        // If another server than the chosen one answered first, the connection is counted for that server.
        if let Some(endpoint) = order.iter().find(is_connected) {
            open = Some(endpoint.open());
        }
        Ok((server, open))
    }

    fn header(&self, client: SocketAddr, local: SocketAddr) -> Vec<u8> {
        self.settings.proxy_protocol.map_or_else(Vec::new, |version| header::emit(version, client, local))
    }
}

fn has_no_header(bytes: &[u8]) -> Option<bool> {
    header::begins(bytes).map(|begins| !begins)
}

impl Service for Proxy {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn supports_handover(&self) -> bool {
        true
    }

    fn client_sends_first(&self) -> bool {
        !self.hosts.is_empty()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.settings.listen.clone()
    }

    /// Looks up the servers' names before the first client is accepted.
    async fn prepare(&self) -> Result<(), Error> {
        Servers::look_up(self.lists()).await;
        Ok(())
    }

    async fn run_in_background(&self) {
        Servers::watch(self.lists(), self.settings.health_interval.duration()).await;
    }

    async fn serve(&self, client: TcpStream, peer: SocketAddr, entry: &ConnectionEntry) {
        let mut read = Vec::new();
        // Dropping the client's stream resets it.
        let Some(((origin, local), servers)) = self.receive(&client, peer, &mut read).await else { return };
        entry.admit(false);
        match self.connect(servers, origin).await {
            Ok((server, _open)) => {
                let to = server.peer_addr().map_or_else(|_| String::new(), |to| to.to_string());
                let watched = watch::register(self.name(), origin, &to);
                let may_relay = self.refuses_header(peer).then_some(has_no_header as MayRelay);
                let first = StreamPrefixes { up: read, may_relay, ..StreamPrefixes::default() };
                let idle = self.limits.idle_timeout.duration();
                let relaying = async {
                    write_all(&server, &self.header(origin, local)).await?;
                    relay(client, server, first, &watched.carried, idle).await
                };
                // Ignore other errors: the relay has already reset both connections.
                if relaying.await.is_err_and(|error| error.kind() == ErrorKind::InvalidData) {
                    REFUSED.log_line(format_args!(
                        "{}: {} sent a PROXY header, but is not in accept_proxy",
                        self.settings.name,
                        peer.ip()
                    ));
                }
            }
            // Dropping the client's stream resets it, as an unreachable server would.
            Err(error) => {
                NO_SERVER.log_line(format_args!("{}: no server answers: {error}", self.settings.name));
            }
        }
    }
}
