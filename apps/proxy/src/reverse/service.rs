//! The reverse proxy: relays each client to a server.

use super::header;
use super::health::{Common, Servers};
use crate::config::{Limits, Reverse};
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
use tokio::net::TcpStream;
use tokio::time::timeout;

static NO_SERVER: RateLimited = RateLimited::new();

/// A reverse proxy.
pub struct Proxy {
    settings: Reverse,
    limits: Limits,
    servers: Servers,
    options: StreamOptions,
}

impl Proxy {
    /// Creates a reverse proxy from its settings.
    pub fn new(settings: Reverse, limits: Limits) -> Self {
        let servers: Vec<_> = settings.to.iter().map(|server| server.as_ref().clone()).collect();
        let common = Common {
            name: settings.name.clone(),
            listen: settings.listen.clone(),
            proxy_protocol: settings.proxy_protocol,
            connect_timeout: limits.connect_timeout.duration(),
            options: StreamOptions { transport: Transport::Tcp, keep_alive: limits.keep_alive.duration() },
        };
        Self { servers: Servers::new(&common, &servers), options: common.options, settings, limits }
    }

    /// Connects to the first server that answers. Attempts start one after another in order of preference.
    async fn connect(&self, client: SocketAddr, local: SocketAddr) -> io::Result<(TcpStream, First)> {
        let pairs = self.servers.in_order().into_iter().map(|address| (address, None)).collect();
        let connecting = attempt_in_order(pairs, ready(Vec::new()), self.options);
        let server = timeout(self.limits.connect_timeout.duration(), connecting).await??;
        Ok((server, First { down: Vec::new(), up: self.header(client, local) }))
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

    fn addresses(&self) -> Vec<SocketAddr> {
        self.settings.listen.clone()
    }

    /// Looks up the servers' names before the first client is accepted.
    async fn prepare(&self) -> Result<(), Error> {
        self.servers.look_up().await;
        Ok(())
    }

    async fn run_in_background(&self) {
        self.servers.watch(self.settings.health_interval.duration()).await;
    }

    async fn serve(&self, client: TcpStream, peer: SocketAddr, entry: &ConnectionEntry) {
        entry.admit(false);
        // The client has already disconnected.
        let Ok(local) = client.local_addr() else { return };
        match self.connect(peer, local).await {
            Ok((server, first)) => {
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
