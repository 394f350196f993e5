//! Health checks of the servers of a reverse proxy, and look-ups of their names.

use super::balance::{Endpoint, OpenConnection, order};
use super::header::{self, Version};
use crate::config::{Balance, Server, WeightedServer, reaches};
use crate::log;
use crate::stream::{StreamOptions, close_with_fin, write_all};
use crate::upstream::connect::connect_to;
use crate::upstream::resolver::Resolver;
use core::net::{IpAddr, SocketAddr};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Names are looked up at each health check, but at the latest this time after the previous look-up.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(60);

/// A list of servers of a reverse proxy.
pub struct Servers {
    backends: Vec<Arc<Backend>>,
    balance: Balance,
    /// Locked while a server is chosen, so that each choice counts the connections of earlier choices.
    choosing: Mutex<()>,
}

/// Settings that all servers of a list share.
#[derive(Clone)]
pub struct Common {
    /// Name of the list in the log.
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
    server: WeightedServer,
    /// True if this server is the only one of the reverse proxy.
    is_only: bool,
    resolver: Resolver,
    /// One endpoint for each address; empty while the server's name has no address.
    endpoints: Mutex<Vec<Arc<Endpoint>>>,
    /// True if the last look-up of the name returned an address.
    is_known: AtomicBool,
    /// True if an address answered the last check.
    is_up: AtomicBool,
}

impl Servers {
    /// Creates the list. Servers are considered healthy until a check fails.
    pub fn new(common: &Common, servers: &[WeightedServer], balance: Balance) -> Self {
        let backend = |server: &WeightedServer| {
            let endpoint = |address| Arc::new(Endpoint::new(address, server.weight()));
            Arc::new(Backend {
                common: common.clone(),
                server: server.clone(),
                is_only: servers.len() == 1,
                resolver: Resolver::new(common.connect_timeout),
                endpoints: Mutex::new(server.server.address().into_iter().map(endpoint).collect()),
                is_known: AtomicBool::new(true),
                is_up: AtomicBool::new(true),
            })
        };
        Self { backends: servers.iter().map(backend).collect(), balance, choosing: Mutex::new(()) }
    }

    /// Returns all addresses in the order in which they are tried for a client, and the connection counted for the
    /// first one.
    pub fn choose(&self, client: IpAddr) -> (Vec<Arc<Endpoint>>, Option<OpenConnection>) {
        let endpoints: Vec<_> = self.backends.iter().flat_map(|backend| backend.endpoints()).collect();
        let _choosing = self.choosing.lock().unwrap_or_else(PoisonError::into_inner);
        let order = order(self.balance, &endpoints, client);
        let opening = order.first().map(Endpoint::open);
        (order, opening)
    }

    /// Looks up all names of the lists. Returns when each name has addresses of one family, or when its look-up has
    /// failed.
    pub async fn look_up(lists: impl Iterator<Item = &Self>) {
        let backends = lists.flat_map(|servers| &servers.backends);
        let mut running: JoinSet<_> =
            backends.map(|backend| Arc::clone(backend).look_up(Duration::ZERO)).collect();
        while running.join_next().await.is_some() {}
    }

    /// Checks each server of the lists at intervals; never returns. A server without an answer does not delay the checks of
    /// others.
    pub async fn watch(lists: impl Iterator<Item = &Self>, interval: Duration) {
        let backends = lists.flat_map(|servers| &servers.backends);
        let mut watched: JoinSet<()> = backends.map(|backend| Arc::clone(backend).watch(interval)).collect();
        while watched.join_next().await.is_some() {}
    }
}

impl Backend {
    async fn watch(self: Arc<Self>, interval: Duration) {
        let mut check_at = Instant::now();
        loop {
            Arc::clone(&self).look_up(self.common.connect_timeout / 2).await;
            if Instant::now() >= check_at {
                self.check().await;
                check_at = Instant::now() + interval;
            }
            sleep_until(check_at.min(Instant::now() + LOOKUP_INTERVAL)).await;
        }
    }

    /// Checks all addresses concurrently. The server is healthy if one of them answers.
    async fn check(&self) {
        let endpoints = self.endpoints();
        let mut running = JoinSet::new();
        for endpoint in &endpoints {
            let (endpoint, common) = (Arc::clone(endpoint), self.common.clone());
            running.spawn(async move {
                let checked = timeout(common.connect_timeout, check_address(endpoint.address, &common)).await;
                let is_up = checked.is_ok_and(|checked| checked.is_ok());
                let was_up = endpoint.set_up(is_up);
                (is_up != was_up).then_some((endpoint.address, is_up))
            });
        }
        let changes: Vec<_> = running.join_all().await.into_iter().flatten().collect();
        let is_up = endpoints.iter().any(|endpoint| endpoint.is_up());
        let was_up = self.set_up(is_up);
        if is_up && was_up && endpoints.len() > 1 {
            for (address, is_up) in changes {
                let event =
                    if is_up { "answers again" } else { "does not answer; using its other addresses" };
                log::log_line(format_args!(
                    "{}: server {} at {address} {event}",
                    self.common.name, self.server.server
                ));
            }
        }
    }

    /// Stores the result of a check and returns the result of the one before.
    fn set_up(&self, is_up: bool) -> bool {
        let was_up = self.is_up.swap(is_up, Ordering::Relaxed);
        if was_up != is_up {
            let event = match (is_up, self.is_only) {
                (true, _) => "answers again",
                (false, false) => "does not answer; using the other servers",
                (false, true) => "does not answer; it is the only server",
            };
            log::log_line(format_args!("{}: server {} {event}", self.common.name, self.server.server));
        }
        was_up
    }

    fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks up the server's name. After the addresses of the first family, waits at most `max_wait` for those of the
    /// second. If the look-up fails, the earlier addresses are kept.
    async fn look_up(self: Arc<Self>, max_wait: Duration) {
        let Server::Name(name, port) = &self.server.server else { return };
        let looking = async {
            let mut addresses = self.resolver.addresses(None, name, *port).await?;
            if self.endpoints().is_empty() {
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
                    log::log_line(format_args!(
                        "{}: {} has an address again",
                        self.common.name, self.server.server
                    ));
                }
            }
            Err(error) => {
                if self.is_known.swap(false, Ordering::Relaxed) {
                    log::log_line(format_args!(
                        "{}: cannot look up {}: {error}",
                        self.common.name, self.server.server
                    ));
                }
            }
        }
    }

    /// Stores the addresses, except those on which this proxy listens, since it would connect to itself. An address
    /// that was known before keeps its state.
    fn set_addresses(&self, found: &[SocketAddr]) {
        let (local, others): (Vec<_>, Vec<_>) = found
            .iter()
            .copied()
            .partition(|to| self.common.listen.iter().any(|listen| reaches(*to, *listen)));
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let before: Vec<_> = endpoints.iter().map(|endpoint| endpoint.address).collect();
        let endpoint = |&address: &SocketAddr| {
            let kept = endpoints.iter().find(|endpoint| endpoint.address == address);
            kept.map_or_else(|| Arc::new(Endpoint::new(address, self.server.weight())), Arc::clone)
        };
        let after = others.iter().map(endpoint).collect();
        *endpoints = after;
        drop(endpoints);
        if let Some(local) = local.first().filter(|_| before != others) {
            log::log_line(format_args!(
                "{}: {} has the address {local}, on which {0} itself listens; this address is not used",
                self.common.name, self.server.server
            ));
        }
    }
}

/// Connects to a server and closes the connection. With the PROXY protocol, the header marks it as opened by the proxy
/// for itself.
async fn check_address(address: SocketAddr, common: &Common) -> io::Result<()> {
    let stream = connect_to(address, None, common.options).await?;
    if let Some(version) = common.proxy_protocol {
        write_all(&stream, &header::emit_local(version)).await?;
    }
    close_with_fin(stream);
    Ok(())
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

    const fn weighted(server: Server) -> WeightedServer {
        WeightedServer { server, weight: None }
    }

    /// The addresses of a name take turns, and a look-up does not change the state of an address.
    #[tokio::test]
    async fn addresses_of_a_name_take_turns() {
        let server = weighted(Server::Name("backend.internal".to_owned(), 80));
        let servers = Servers::new(&common(Duration::from_secs(1)), &[server], Balance::RoundRobin);
        let addresses: Vec<SocketAddr> =
            ["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80"].map(|text| text.parse().unwrap()).into();
        servers.backends[0].set_addresses(&addresses);
        let choose = || servers.choose(addresses[0].ip()).0[0].address;
        assert_eq!([choose(), choose(), choose()], addresses[..]);
        servers.backends[0].endpoints()[0].set_up(false);
        servers.backends[0].set_addresses(&[addresses[2], addresses[0]]);
        assert_eq!([choose(), choose()], [addresses[2]; 2]);
    }

    /// The first server does not answer, because its backlog is full.
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
        let servers = [silent_at, gone].map(|address| weighted(Server::Address(address)));
        let servers = Servers::new(&common(Duration::from_secs(60)), &servers, Balance::First);
        let both = async {
            while servers.backends[1].is_up.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = Servers::watch([&servers].into_iter(), Duration::from_millis(10)) => unreachable!("watch never returns"),
            () = both => {}
            () = tokio::time::sleep(Duration::from_secs(20)) => panic!("the second server is not checked"),
        }
        assert!(servers.backends[0].is_up.load(Ordering::Relaxed));
        let (order, opening) = servers.choose(silent_at.ip());
        assert_eq!([order[0].address, order[1].address], [silent_at, gone]);
        assert!(opening.is_some());
    }

    #[tokio::test]
    async fn names_are_looked_up_and_own_listeners_left_out() {
        let listen = "127.0.0.1:7".parse().unwrap();
        let common = Common { listen: vec![listen], ..common(Duration::from_secs(20)) };
        let named = |port| weighted(Server::Name("127.1".to_owned(), port));
        let servers = Servers::new(&common, &[named(7), named(8)], Balance::RoundRobin);
        let addresses = || -> Vec<_> {
            let (order, _) = servers.choose(listen.ip());
            order.iter().map(|endpoint| endpoint.address).collect()
        };
        assert!(addresses().is_empty());
        Servers::look_up([&servers].into_iter()).await;
        let found = addresses();
        assert!(!found.contains(&listen) && found.contains(&"127.0.0.1:8".parse().unwrap()), "{found:?}");
    }
}
