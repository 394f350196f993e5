//! The reverse proxy: relays each client to a server.

use super::balance::{Endpoint, OpenConnection};
use super::header;
use super::health::{Common, Servers};
use super::host_names::HostNames;
use super::requested_host::{Refusal, read_host};
use crate::config::{Host, Limits, Reverse, WeightedServer};
use crate::connect::attempt_in_order;
use crate::connection_table::ConnectionEntry;
use crate::error::Error;
use crate::log::RateLimited;
use crate::relay::{First, relay};
use crate::serve::Service;
use crate::stream::{StreamOptions, Transport};
use crate::watch;
use core::future::ready;
use core::net::SocketAddr;
use std::io;
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
    /// Servers for clients of no host in the file; `None` if those are reset.
    default: Option<Servers>,
    hosts: Vec<Servers>,
    /// Positions in `hosts`.
    names: HostNames<usize>,
    options: StreamOptions,
}

impl Proxy {
    /// Creates it from the settings.
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

    /// Chooses the list of servers for a client; `first` gets the bytes that were read for it. `None` if the client is to be
    /// reset.
    async fn choose_list(
        &self,
        client: &TcpStream,
        peer: SocketAddr,
        first: &mut Vec<u8>,
    ) -> Option<&Servers> {
        if self.hosts.is_empty() {
            return self.default.as_ref();
        }
        let host = match read_host(client, first).await {
            Ok(host) => host,
            Err(Refusal::Broken(_)) => return None,
            Err(refusal) => {
                REFUSED.log_line(format_args!("{}: {} {refusal}", self.settings.name, peer.ip()));
                return None;
            }
        };
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
        list
    }

    /// Connects to the first server that answers. Attempts start one after another, beginning with the server that `balance`
    /// chooses.
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
        // Another server than the chosen one may have answered first.
        if let Some(endpoint) = order.iter().find(is_connected) {
            open = Some(endpoint.open());
        }
        Ok((server, open))
    }

    fn header(&self, client: SocketAddr, local: SocketAddr) -> Vec<u8> {
        self.settings.proxy_protocol.map_or_else(Vec::new, |version| header::emit(version, client, local))
    }
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
        // The client has already disconnected.
        let Ok(local) = client.local_addr() else { return };
        let mut read = Vec::new();
        // Dropping the client's stream resets it.
        let Some(servers) = self.choose_list(&client, peer, &mut read).await else { return };
        entry.admit(false);
        match self.connect(servers, peer).await {
            Ok((server, _open)) => {
                let mut up = self.header(peer, local);
                up.append(&mut read);
                let first = First { down: Vec::new(), up };
                let to = server.peer_addr().map_or_else(|_| String::new(), |to| to.to_string());
                let watched = watch::register(self.name(), peer, &to);
                // Ignore errors: both ends have been reset.
                let idle = self.limits.idle_timeout.duration();
                drop(relay(client, server, first, &watched.carried, idle).await);
            }
            // Dropping the client's stream resets it, as an unreachable server would.
            Err(error) => {
                NO_SERVER.log_line(format_args!("{}: no server answers: {error}", self.settings.name));
            }
        }
    }
}
