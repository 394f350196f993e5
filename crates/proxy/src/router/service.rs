//! The router: takes hosts' connections and carries them by the proxy.

use super::install::{install, remove};
use super::names::{Seen, follow, resolve};
use super::rules::{TABLE, families, plan};
use crate::instance_lock::{InstanceLock, permitted};
use crate::config::{Limits, Router};
use crate::error::Error;
use crate::upstream_proxy::{Connected, NotConnected};
use crate::handover::Inherited;
use crate::listen::intercept;
use crate::log::{self, Limited};
use crate::relay::{First, relay};
use crate::serve::Service;
use crate::sockopt::is_multipath;
use crate::socks::wire::{Reply, Target};
use crate::stream::{Transport, read_now};
use crate::upstream::Upstream;
use crate::watch;
use core::net::SocketAddr;
use std::sync::{Mutex, Once, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

static NOT_REACHED: Limited = Limited::new();
static NOT_HANDED_OVER: Limited = Limited::new();

/// A router.
pub struct Proxy {
    settings: Router,
    limits: Limits,
    via: Upstream,
    /// Addresses of names, from the installation to whoever follows them.
    seen: Mutex<Option<Seen>>,
    _alone: InstanceLock,
}

impl Proxy {
    /// With these settings.
    ///
    /// # Errors
    /// If the process may not change the network, or another router runs here.
    pub fn new(settings: Router, limits: Limits) -> Result<Self, Error> {
        permitted("a router")?;
        let (alone, via) = (
            InstanceLock::here(TABLE, "router")?,
            Upstream::new(settings.via.as_ref().clone(), &limits),
        );
        Ok(Self { settings, limits, via, seen: Mutex::default(), _alone: alone })
    }

    /// A connection to where a host wants to go, with what the host has said so far.
    async fn connect(&self, host: &TcpStream, target: SocketAddr) -> Result<Connected, NotConnected> {
        let target = Target::Address(target);
        let connecting = self.via.connect(&target, || read_now(host));
        timeout(self.limits.connect_timeout.duration(), connecting)
            .await
            .unwrap_or_else(|_| Err((Reply::TimedOut, "nobody answered in time".to_owned())))
    }

    /// Says once that the proxy is reached over one link alone.
    fn notice_plain(&self, server: &TcpStream) {
        static SAID: Once = Once::new();
        if self.via.transport() == Transport::Mptcp && !is_multipath(server) {
            SAID.call_once(|| {
                log::say(format_args!(
                    "router: the proxy {} answers by TCP and so over one link: there, or on the way, is no Multipath TCP; \
                     this is said once",
                    self.settings.via.as_ref().proxy,
                ));
            });
        }
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
        if !self.settings.install {
            return Ok(());
        }
        let mut seen = Seen::default();
        // Name servers may keep silent; whoever wants this to end meanwhile does not wait for them.
        let settings = self.settings.clone();
        let resolved = tokio::task::spawn_blocking(move || resolve(&settings)).await;
        let resolved =
            resolved.map_err(|error| Error::Refused(format!("names are not resolved: {error}")))?;
        let names = seen.add(Instant::now(), resolved);
        install(&self.settings, &plan(&self.settings, &families(), &names))?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        log::say(format_args!(
            "router: takes the TCP connections that come in by {}",
            self.settings.interfaces.as_ref().join(", ")
        ));
        Ok(())
    }

    async fn attend(&self) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
        match seen {
            Some(seen) => follow(self.settings.clone(), seen).await,
            None => std::future::pending().await,
        }
    }

    async fn end(&self) {
        if !self.settings.install {
            return;
        }
        if let Err(error) = remove() {
            log::say(format_args!("router: its rules are still there: {error}"));
        }
    }

    async fn serve(&self, host: TcpStream, peer: SocketAddr) {
        // A host that has gone needs no server.
        let Ok(target) = host.local_addr() else { return };
        if target.ip().is_loopback() {
            return NOT_HANDED_OVER
                .say(format_args!("router: {peer} came straight to it, which leads nowhere"));
        }
        match self.connect(&host, target).await {
            Ok(Connected { server, first: down, .. }) => {
                self.notice_plain(&server);
                let watched = watch::open_intercepted(self.name(), peer, &target);
                // Both ends have been told of its failure.
                drop(relay(host, server, First { up: Vec::new(), down }, &watched.carried).await);
            }
            // The host is reset at once: it has no other way to know.
            Err((_, reason)) => NOT_REACHED.say(format_args!("router: {target}: {reason}")),
        }
    }
}
