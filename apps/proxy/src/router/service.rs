//! The router: intercepts the connections of the hosts in the LAN and relays them through the upstream proxy.

use super::datagrams::Interceptor;
use super::guard::Guard;
use super::install::{install, remove};
use super::names::{NamedAddresses, Names};
use super::rules::{TABLE, families, plan};
use crate::config::{Limits, Router};
use crate::error::Error;
use crate::handover::Inherited;
use crate::instance_lock::{InstanceLock, check_permission};
use crate::limits::connection_table::ConnectionEntry;
use crate::listen::intercept;
use crate::log::{self, RateLimited};
use crate::relay::{StreamPrefixes, relay};
use crate::serve::Service;
use crate::sockopt::is_multipath;
use crate::socks::wire::Target;
use crate::stream::{Transport, read_now};
use crate::uplinks::{Changes, NFTABLES_GROUP, ROUTING_GROUPS};
use crate::upstream::connect::Attempts;
use crate::upstream::protocols::Upstream;
use crate::upstream::proxy::{Connected, NotConnected, within_connect_timeout};
use crate::watch;
use core::net::SocketAddr;
use rustix::net::netlink::NETFILTER;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

/// Rate limit for log lines about targets that could not be reached.
static NOT_REACHED: RateLimited = RateLimited::new();
/// Rate limit for log lines about hosts that connect to the router's port themselves, instead of being intercepted.
static NOT_HANDED_OVER: RateLimited = RateLimited::new();
/// Rate limit for log lines about addresses of names that could not be updated.
static NOT_RENEWED: RateLimited = RateLimited::new();

/// Rules, routes and nftables are checked after each change that the kernel reports, and at this interval.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum time between two checks, so that changes which the kernel reports together cause one check.
const CHECK_PAUSE: Duration = Duration::from_millis(500);

/// A router.
pub struct Proxy {
    settings: Router,
    limits: Limits,
    via: Arc<Upstream>,
    /// Names in `bypass` and `only`. The background task takes them after the installation.
    names: Mutex<Option<Names>>,
    /// Sockets for UDP, if UDP is intercepted. The background task takes the sockets.
    datagrams: Mutex<Option<Interceptor>>,
    /// Restores rules, routes and the nftables table; `None` before the installation.
    guard: Arc<Mutex<Option<Guard>>>,
    _lock: InstanceLock,
}

impl Proxy {
    /// Creates a router from the settings.
    ///
    /// # Errors
    /// If the process may not configure the network, or another router runs in this network namespace.
    pub fn new(settings: Router, limits: Limits) -> Result<Self, Error> {
        check_permission("a router")?;
        let (lock_file, via) =
            (InstanceLock::acquire(TABLE, "router")?, Upstream::new(settings.via.as_ref().clone(), &limits));
        let (names, datagrams) = (Mutex::default(), Mutex::default());
        let (via, guard) = (Arc::new(via), Arc::default());
        Ok(Self { settings, limits, via, names, datagrams, guard, _lock: lock_file })
    }

    /// Connects to the target of a host and sends the host's early data.
    async fn connect(&self, host: &TcpStream, target: SocketAddr) -> Result<Connected, NotConnected> {
        let target = Target::Address(target);
        within_connect_timeout(&self.limits, self.via.connect(&target, || read_now(host))).await
    }

    /// Replaces the addresses of the names in `bypass` and `only`, if new ones are given, and restores rules and routes that other
    /// programs have removed.
    async fn check_rules(&self, addresses: Option<NamedAddresses>) {
        let guard = Arc::clone(&self.guard);
        let keeping = move || {
            if let Some(guard) = lock(&guard).as_mut() {
                if let Some(Err(error)) = addresses.map(|addresses| guard.update_names(addresses)) {
                    NOT_RENEWED
                        .log_line(format_args!("router: cannot update the addresses of names: {error}"));
                }
                guard.check();
            }
        };
        // Ignore errors: the task fails only if the runtime ends.
        drop(tokio::task::spawn_blocking(keeping).await);
    }

    /// Logs, at most once, that a connection to the upstream proxy uses TCP over one link instead of Multipath TCP.
    fn log_first_plain_tcp(&self, server: &TcpStream) {
        /// Ensures that the line is logged once.
        static LOGGED: Once = Once::new();
        if self.via.transport() == Transport::Mptcp && !is_multipath(server) {
            LOGGED.call_once(|| {
                log::log_line(format_args!(
                    "router: the proxy {} uses TCP over one link: the proxy or the network does not support Multipath TCP; \
                    logged once",
                    self.settings.via.as_ref().proxy,
                ));
            });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Subscribes to changes of links, addresses, routes, rules and nftables.
fn follow_changes() -> Vec<Changes> {
    let following = [Changes::follow(None, ROUTING_GROUPS), Changes::follow(Some(NETFILTER), NFTABLES_GROUP)];
    let failed = |error: &std::io::Error| {
        log::log_line(format_args!(
            "router: cannot subscribe to network changes ({error}); checking every {} s",
            RESYNC_INTERVAL.as_secs()
        ));
    };
    following.into_iter().filter_map(|changes| changes.inspect_err(failed).ok()).collect()
}

/// Waits for a change in the kernel, or until the next check is due.
async fn next_change(changes: &mut Vec<Changes>) {
    let (has_ended, number) = {
        let mut waiting = Attempts::new();
        for (number, changes) in changes.iter_mut().enumerate() {
            waiting.add(async move { (!changes.next().await, number) });
        }
        tokio::select! {
            ended = waiting.next_ended(), if !waiting.is_empty() => ended,
            () = sleep(RESYNC_INTERVAL) => (false, 0),
        }
    };
    if has_ended {
        drop(changes.remove(number));
    }
}

impl Service for Proxy {
    fn name(&self) -> &'static str {
        "router"
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let port = self.settings.port;
        families().into_iter().map(|family| SocketAddr::new(family.loopback(), port)).collect()
    }

    /// Listens with TCP, because the hosts in the LAN use TCP.
    fn listen(
        &self,
        address: SocketAddr,
        _: Transport,
        _: Option<&mut Inherited>,
    ) -> Result<(TcpListener, Transport), Error> {
        Ok((intercept(address)?, Transport::Tcp))
    }

    async fn prepare(&self) -> Result<(), Error> {
        if let Some(udp) = self.settings.via.as_ref().udp {
            let interceptor =
                Interceptor::open(&self.addresses(), (Arc::clone(&self.via), udp), self.limits)?;
            *lock(&self.datagrams) = Some(interceptor);
        }
        let mut addresses = NamedAddresses::default();
        if self.settings.install {
            let mut names = Names::new(&self.settings);
            addresses = names.look_up().await;
            install(&self.settings, &plan(&self.settings, &families(), &addresses))?;
            *lock(&self.names) = Some(names);
            log::log_line(format_args!(
                "router: intercepting TCP connections from {}",
                self.settings.interfaces.as_ref().join(", ")
            ));
        }
        let mut guard = Guard::new(self.settings.clone(), addresses);
        guard.check();
        *lock(&self.guard) = Some(guard);
        Ok(())
    }

    async fn run_in_background(&self) {
        let (names, datagrams) = (lock(&self.names).take(), lock(&self.datagrams).take());
        let (sender, mut renewed) = mpsc::channel(1);
        let links_changed = Notify::new();
        let following = async {
            match names {
                Some(names) => names.follow(&links_changed, sender).await,
                None => std::future::pending().await,
            }
        };
        let guarding = async {
            let mut changes = follow_changes();
            loop {
                let addresses = tokio::select! {
                    Some(addresses) = renewed.recv() => Some(addresses),
                    () = next_change(&mut changes) => None,
                };
                links_changed.notify_one();
                self.check_rules(addresses).await;
                sleep(CHECK_PAUSE).await;
            }
        };
        let relaying = async {
            match datagrams {
                Some(interceptor) => interceptor.run().await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(following, guarding, relaying);
    }

    async fn clean_up(&self) {
        // Stops the repairs first, so that no check restores the rules that are removed next.
        lock(&self.guard).iter_mut().for_each(Guard::stop);
        if !self.settings.install {
            return;
        }
        if let Err(error) = remove() {
            log::log_line(format_args!("router: cannot remove the rules: {error}"));
        }
    }

    async fn serve(&self, host: TcpStream, peer: SocketAddr, entry: &ConnectionEntry) {
        entry.admit(false);
        // An error means that the host has disconnected, so there is no connection to relay.
        let Ok(target) = host.local_addr() else { return };
        if target.ip().is_loopback() {
            return NOT_HANDED_OVER.log_line(format_args!(
                "router: {peer} connected directly to the port of intercepted connections; reset"
            ));
        }
        match self.connect(&host, target).await {
            Ok(Connected { server, first: down, .. }) => {
                self.log_first_plain_tcp(&server);
                let watched = watch::register_intercepted(self.name(), peer, &target);
                // Ignore errors: the relay has already reset both connections.
                let first = StreamPrefixes { down, ..StreamPrefixes::default() };
                drop(relay(host, server, first, &watched.carried, self.limits.idle_timeout.duration()).await);
            }
            // Dropping the stream resets the host's connection. There is no other way to report the failure to the
            // host.
            Err((_, reason)) => NOT_REACHED.log_line(format_args!("router: {target}: {reason}")),
        }
    }
}
