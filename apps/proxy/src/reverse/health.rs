//! Health of the servers of a reverse proxy, and the addresses of their names.

use super::header::{self, Version};
use crate::config::{Server, reaches};
use crate::connect::{attempt_in_order, pairs};
use crate::log;
use crate::resolver::Resolver;
use crate::stream::{StreamOptions, close_with_fin, write_all};
use core::future::ready;
use core::net::SocketAddr;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Names are looked up at each health check, and at least at this interval.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(60);

/// The servers of a reverse proxy, in order of preference.
pub struct Servers(Vec<Arc<Backend>>);

/// Settings that all servers of a reverse proxy share.
#[derive(Clone)]
pub struct Common {
    /// Name of the reverse proxy in the log.
    pub name: String,
    /// Listening addresses of the reverse proxy.
    pub listen: Vec<SocketAddr>,
    /// Version of the PROXY header that is sent before each stream.
    pub proxy_protocol: Option<Version>,
    /// Timeout of a connection and of a look-up.
    pub connect_timeout: Duration,
    /// Options of the connections to the servers.
    pub options: StreamOptions,
}

struct Backend {
    common: Common,
    server: Server,
    /// True if the reverse proxy has no other server.
    is_only: bool,
    resolver: Resolver,
    addresses: Mutex<Vec<SocketAddr>>,
    /// True if the last look-up of the name returned an address.
    is_known: AtomicBool,
    is_up: AtomicBool,
}

impl Servers {
    /// Creates the list. Servers are considered healthy until a check fails.
    pub fn new(common: &Common, servers: &[Server]) -> Self {
        let backend = |server: &Server| {
            Arc::new(Backend {
                common: common.clone(),
                server: server.clone(),
                is_only: servers.len() == 1,
                resolver: Resolver::new(common.connect_timeout),
                addresses: Mutex::new(server.address().into_iter().collect()),
                is_known: AtomicBool::new(true),
                is_up: AtomicBool::new(true),
            })
        };
        Self(servers.iter().map(backend).collect())
    }

    /// Addresses of healthy servers, followed by those of the others, which may have recovered.
    pub fn in_order(&self) -> Vec<SocketAddr> {
        let (up, down): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|server| server.is_up.load(Ordering::Relaxed));
        up.into_iter().chain(down).flat_map(|server| server.addresses()).collect()
    }

    /// Looks up all names, and waits until each has an address of one family or has failed.
    pub async fn look_up(&self) {
        let mut running: JoinSet<_> =
            self.0.iter().map(|server| Arc::clone(server).look_up(Duration::ZERO)).collect();
        while running.join_next().await.is_some() {}
    }

    /// Checks each server at intervals; never returns. A server without an answer does not delay the checks of others.
    pub async fn watch(&self, interval: Duration) {
        let mut watched: JoinSet<()> =
            self.0.iter().map(|server| Arc::clone(server).watch(interval)).collect();
        while watched.join_next().await.is_some() {}
    }
}

impl Backend {
    async fn watch(self: Arc<Self>, interval: Duration) {
        let mut check_at = Instant::now();
        loop {
            Arc::clone(&self).look_up(self.common.connect_timeout / 2).await;
            if Instant::now() >= check_at {
                let checked = timeout(self.common.connect_timeout, self.check()).await;
                self.set_up(checked.is_ok_and(|checked| checked.is_ok()));
                check_at = Instant::now() + interval;
            }
            sleep_until(check_at.min(Instant::now() + LOOKUP_INTERVAL)).await;
        }
    }

    /// Connects and closes. With the PROXY protocol, the header marks the connection as the proxy's own.
    async fn check(&self) -> io::Result<()> {
        let pairs = pairs(&self.addresses(), &[]);
        let stream = attempt_in_order(pairs, ready(Vec::new()), self.common.options).await?;
        if let Some(version) = self.common.proxy_protocol {
            write_all(&stream, &header::emit_local(version)).await?;
        }
        close_with_fin(stream);
        Ok(())
    }

    fn set_up(&self, is_up: bool) {
        if self.is_up.swap(is_up, Ordering::Relaxed) == is_up {
            return;
        }
        let event = match (is_up, self.is_only) {
            (true, _) => "answers again",
            (false, false) => "does not answer; using the other servers",
            (false, true) => "does not answer; it is the only server",
        };
        log::log_line(format_args!("{}: server {} {event}", self.common.name, self.server));
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks up the server's name; waits at most `max_wait` for the second family after the first. If the look-up fails, the
    /// earlier addresses are kept.
    async fn look_up(self: Arc<Self>, max_wait: Duration) {
        let Server::Name(name, port) = &self.server else { return };
        let looking = async {
            let mut addresses = self.resolver.addresses(None, name, *port).await?;
            if self.addresses().is_empty() {
                self.set_addresses(&addresses.ready);
            }
            let later = timeout(max_wait, addresses.later()).await;
            addresses.ready.extend(later.unwrap_or_default());
            Ok(addresses.ready)
        };
        let looked_up: io::Result<_> = match timeout(self.common.connect_timeout, looking).await {
            Ok(looked_up) => looked_up,
            Err(elapsed) => Err(elapsed.into()),
        };
        match looked_up {
            Ok(found) => {
                self.set_addresses(&found);
                if !self.is_known.swap(true, Ordering::Relaxed) {
                    log::log_line(format_args!("{}: {} has an address again", self.common.name, self.server));
                }
            }
            Err(error) => {
                if self.is_known.swap(false, Ordering::Relaxed) {
                    log::log_line(format_args!(
                        "{}: cannot look up {}: {error}",
                        self.common.name, self.server
                    ));
                }
            }
        }
    }

    /// Sets the addresses, except those on which this proxy itself listens: it would connect to itself.
    fn set_addresses(&self, found: &[SocketAddr]) {
        let (own, others): (Vec<_>, Vec<_>) =
            found.iter().partition(|to| self.common.listen.iter().any(|listen| reaches(**to, *listen)));
        let before = std::mem::replace(
            &mut *self.addresses.lock().unwrap_or_else(PoisonError::into_inner),
            others.clone(),
        );
        if let Some(own) = own.first().filter(|_| before != others) {
            log::log_line(format_args!(
                "{}: {} has the address {own}, on which {0} itself listens; this address is not used",
                self.common.name, self.server
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Transport;

    fn common(connect_timeout: Duration) -> Common {
        Common {
            name: "web".to_owned(),
            listen: Vec::new(),
            proxy_protocol: None,
            connect_timeout,
            options: StreamOptions { transport: Transport::Tcp, keep_alive: Duration::from_secs(25) },
        }
    }

    /// The first server's backlog is full, so it does not answer.
    #[tokio::test]
    async fn silent_server_does_not_block_others() {
        let silent = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        silent.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        silent.listen(0).unwrap();
        let silent_at = silent.local_addr().unwrap().as_socket().unwrap();
        let mut held = Vec::new();
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&silent_at, Duration::from_millis(100)) {
            held.push(stream);
        }
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let servers = Servers::new(&common(Duration::from_secs(60)), &[silent_at, gone].map(Server::Address));
        let both = async {
            while servers.0[1].is_up.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = servers.watch(Duration::from_millis(10)) => unreachable!("watch never returns"),
            () = both => {}
            () = tokio::time::sleep(Duration::from_secs(20)) => panic!("the second server is not checked"),
        }
        assert!(servers.0[0].is_up.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn names_are_looked_up_and_own_listeners_left_out() {
        let listen = "127.0.0.1:7".parse().unwrap();
        let common = Common { listen: vec![listen], ..common(Duration::from_secs(20)) };
        let named = |port| Server::Name("127.1".to_owned(), port);
        let servers = Servers::new(&common, &[named(7), named(8)]);
        assert!(servers.in_order().is_empty());
        servers.look_up().await;
        let found = servers.in_order();
        assert!(!found.contains(&listen) && found.contains(&"127.0.0.1:8".parse().unwrap()), "{found:?}");
    }
}
