//! The router: takes hosts' connections and carries them by the proxy.

use super::guard::Guard;
use super::install::{install, remove};
use super::names::Names;
use super::rules::{TABLE, families, plan};
use crate::config::{Limits, Router};
use crate::connect::Attempts;
use crate::error::Error;
use crate::handover::Inherited;
use crate::instance_lock::{InstanceLock, permitted};
use crate::listen::intercept;
use crate::log::{self, Limited};
use crate::occupants::Seat;
use crate::relay::{First, relay};
use crate::serve::Service;
use crate::sockopt::is_multipath;
use crate::socks::wire::{Reply, Target};
use crate::stream::{Transport, read_now};
use crate::uplinks::{Changes, NFTABLES_GROUP, ROUTING_GROUPS};
use crate::upstream::Upstream;
use crate::upstream_proxy::{Connected, NotConnected};
use crate::watch;
use core::net::{IpAddr, SocketAddr};
use rustix::net::netlink::NETFILTER;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

static NOT_REACHED: Limited = Limited::new();
static NOT_HANDED_OVER: Limited = Limited::new();
static NOT_RENEWED: Limited = Limited::new();

/// Rules, routes and nftables are compared after each change that the kernel reports, and at this interval.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);
/// Time between two comparisons: changes come in groups.
const CHECK_PAUSE: Duration = Duration::from_millis(500);

/// A router.
pub struct Proxy {
    settings: Router,
    limits: Limits,
    via: Upstream,
    /// Names, from the installation to their look-ups at intervals.
    names: Mutex<Option<Names>>,
    /// Keeps rules, routes and nftables in place.
    guard: Arc<Mutex<Option<Guard>>>,
    _alone: InstanceLock,
}

impl Proxy {
    /// With these settings.
    ///
    /// # Errors
    /// If the process may not change the network, or another router runs here.
    pub fn new(settings: Router, limits: Limits) -> Result<Self, Error> {
        permitted("a router")?;
        let (alone, via) =
            (InstanceLock::here(TABLE, "router")?, Upstream::new(settings.via.as_ref().clone(), &limits));
        Ok(Self { settings, limits, via, names: Mutex::default(), guard: Arc::default(), _alone: alone })
    }

    /// Connects to the target of a host, and sends the host's first data.
    async fn connect(&self, host: &TcpStream, target: SocketAddr) -> Result<Connected, NotConnected> {
        let target = Target::Address(target);
        let connecting = self.via.connect(&target, || read_now(host));
        timeout(self.limits.connect_timeout.duration(), connecting)
            .await
            .unwrap_or_else(|_| Err((Reply::TimedOut, "no answer before connect_timeout".to_owned())))
    }

    /// Renews the addresses of names, if some are given, and puts back what other programs have removed.
    async fn keep(&self, addresses: Option<BTreeSet<IpAddr>>) {
        let guard = Arc::clone(&self.guard);
        let keeping = move || {
            if let Some(guard) = lock(&guard).as_mut() {
                if let Some(Err(error)) = addresses.map(|addresses| guard.renew(addresses)) {
                    NOT_RENEWED.say(format_args!("router: addresses of names are not renewed: {error}"));
                }
                guard.check();
            }
        };
        // It fails if the runtime ends.
        drop(tokio::task::spawn_blocking(keeping).await);
    }

    /// Says once that the proxy is reached over one link alone.
    fn notice_plain(&self, server: &TcpStream) {
        static SAID: Once = Once::new();
        if self.via.transport() == Transport::Mptcp && !is_multipath(server) {
            SAID.call_once(|| {
                log::say(format_args!(
                    "router: the proxy {} answers by TCP, over one link: it or the network has no Multipath TCP; \
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

/// Changes of links, addresses, routes and rules, and of nftables.
fn follow_changes() -> Vec<Changes> {
    let following = [Changes::follow(None, ROUTING_GROUPS), Changes::follow(Some(NETFILTER), NFTABLES_GROUP)];
    let failed = |error: &std::io::Error| {
        log::say(format_args!(
            "router: cannot follow changes of the network ({error}); looks every {} s",
            RESYNC_INTERVAL.as_secs()
        ));
    };
    following.into_iter().filter_map(|changes| changes.inspect_err(failed).ok()).collect()
}

/// Waits for a change, or for the time of the next comparison.
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

    /// For hosts that have TCP alone, or one link.
    fn listen(
        &self,
        address: SocketAddr,
        _: Transport,
        _: Option<&mut Inherited>,
    ) -> Result<(TcpListener, Transport), Error> {
        Ok((intercept(address)?, Transport::Tcp))
    }

    async fn begin(&self) -> Result<(), Error> {
        let mut addresses = BTreeSet::new();
        if self.settings.install {
            let mut names = Names::new(&self.settings);
            addresses = names.look_up().await;
            install(&self.settings, &plan(&self.settings, &families(), &addresses))?;
            *lock(&self.names) = Some(names);
            log::say(format_args!(
                "router: takes the TCP connections that come in by {}",
                self.settings.interfaces.as_ref().join(", ")
            ));
        }
        let mut guard = Guard::new(self.settings.clone(), addresses);
        guard.check();
        *lock(&self.guard) = Some(guard);
        Ok(())
    }

    async fn attend(&self) {
        let names = lock(&self.names).take();
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
                self.keep(addresses).await;
                sleep(CHECK_PAUSE).await;
            }
        };
        tokio::join!(following, guarding);
    }

    async fn end(&self) {
        // After this, no check puts anything back.
        lock(&self.guard).iter_mut().for_each(Guard::end);
        if !self.settings.install {
            return;
        }
        if let Err(error) = remove() {
            log::say(format_args!("router: cannot remove its rules: {error}"));
        }
    }

    async fn serve(&self, host: TcpStream, peer: SocketAddr, seat: &Seat) {
        seat.admit(false);
        // A host that has gone needs no server.
        let Ok(target) = host.local_addr() else { return };
        if target.ip().is_loopback() {
            return NOT_HANDED_OVER.say(format_args!(
                "router: {peer} connected directly to the port of intercepted connections; reset"
            ));
        }
        match self.connect(&host, target).await {
            Ok(Connected { server, first: down, .. }) => {
                self.notice_plain(&server);
                let watched = watch::open_intercepted(self.name(), peer, &target);
                // Ignore errors: both ends have been reset.
                let first = First { up: Vec::new(), down };
                drop(relay(host, server, first, &watched.carried, self.limits.idle_timeout.duration()).await);
            }
            // The host is reset at once: it has no other way to know.
            Err((_, reason)) => NOT_REACHED.say(format_args!("router: {target}: {reason}")),
        }
    }
}
