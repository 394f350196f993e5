//! Addresses of the names in `bypass`, to which hosts connect without the proxy.

use crate::config::Router;
use crate::connect::Attempts;
use crate::log::RateLimited;
use crate::resolver::{Resolver, host_and_port};
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Interval between look-ups of names.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(60);

/// An address is kept for this time after the last look-up that returned it, because hosts may still use it from an
/// earlier answer.
const ADDRESS_LIFETIME: Duration = Duration::from_secs(3600);

/// Rate limit for log lines about names that could not be looked up.
static UNKNOWN: RateLimited = RateLimited::new();
/// Recent addresses of names, with the time of the last look-up that returned them.
#[derive(Debug, Default)]
pub struct RecentAddresses(BTreeMap<IpAddr, Instant>);

impl RecentAddresses {
    /// Adds the addresses of a look-up; returns all recent addresses.
    pub fn add(&mut self, now: Instant, addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        self.0.extend(addresses.into_iter().map(|address| (address, now)));
        self.0.retain(|_, seen_at| now.saturating_duration_since(*seen_at) < ADDRESS_LIFETIME);
        self.0.keys().copied().collect()
    }
}

/// The names in `bypass`, and the name of the upstream proxy. Hosts connect directly to their addresses.
pub struct Names {
    /// Names and ports to look up.
    to_look_up: Vec<(String, u16)>,
    resolver: Resolver,
    recent: RecentAddresses,
    /// Running look-ups of the second address family.
    pending: JoinSet<Vec<SocketAddr>>,
    has_unknown: bool,
}

impl Names {
    /// Creates the list of names from the settings.
    pub fn new(router: &Router) -> Self {
        let bypass = router.bypass.names.iter().map(|name| (name.as_ref().clone(), 0));
        let proxy = host_and_port(&router.via.as_ref().proxy).map(|(host, port)| (host.to_owned(), port));
        Self {
            to_look_up: bypass.chain(proxy).collect(),
            resolver: Resolver::new(Duration::MAX),
            recent: RecentAddresses::default(),
            pending: JoinSet::new(),
            has_unknown: false,
        }
    }

    /// Looks up all names concurrently; returns all recent addresses. [`Self::follow`] or [`Self::complete`] adds the
    /// addresses of the family that answers later.
    pub async fn look_up(&mut self) -> BTreeSet<IpAddr> {
        let (mut found, mut unknown, mut running) = (BTreeSet::new(), Vec::new(), Attempts::new());
        for (name, port) in &self.to_look_up {
            let resolver = &self.resolver;
            running.add(async move { (name, resolver.addresses(None, name, *port).await) });
        }
        while !running.is_empty() {
            match running.next_ended().await {
                (_, Ok(mut addresses)) => {
                    found.extend(addresses.ready.iter().map(SocketAddr::ip));
                    if addresses.has_pending() {
                        self.pending.spawn(async move { addresses.later().await });
                    }
                }
                (name, Err(error)) => unknown.push(format!("{name} ({error})")),
            }
        }
        self.has_unknown = !unknown.is_empty();
        if self.has_unknown {
            UNKNOWN.log_line(format_args!("router: cannot look up {}", unknown.join(", ")));
        }
        self.recent.add(Instant::now(), found)
    }

    /// Waits at most `max_wait` for the addresses of the second family; returns all recent addresses.
    pub async fn complete(&mut self, max_wait: Duration) -> BTreeSet<IpAddr> {
        let completing = async { while self.next_late().await.is_some() {} };
        // After the timeout, the look-ups still running are ignored.
        drop(timeout(max_wait, completing).await);
        self.recent.add(Instant::now(), BTreeSet::new())
    }

    /// Waits until a look-up of the second family ends, and adds its addresses; `None` if no such look-up is running.
    async fn next_late(&mut self) -> Option<()> {
        let late = self.pending.join_next().await?.unwrap_or_default();
        self.recent.add(Instant::now(), late.iter().map(SocketAddr::ip).collect());
        Some(())
    }

    /// Looks up names at intervals, and also when links change while a name has no address. After each change of the
    /// addresses, sends all of them to `changed`.
    pub async fn follow(mut self, links_changed: &Notify, changed: mpsc::Sender<BTreeSet<IpAddr>>) {
        let mut sent: BTreeSet<IpAddr> = self.recent.0.keys().copied().collect();
        let mut look_up_at = Instant::now() + LOOKUP_INTERVAL;
        loop {
            let is_due = tokio::select! {
                () = sleep_until(look_up_at) => true,
                () = links_changed.notified(), if self.has_unknown => true,
                Some(()) = self.next_late() => false,
            };
            if is_due {
                self.look_up().await;
                look_up_at = Instant::now() + LOOKUP_INTERVAL;
            }
            let now: BTreeSet<IpAddr> = self.recent.0.keys().copied().collect();
            if now != sent && changed.send(now.clone()).await.is_ok() {
                sent = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_kept_for_address_lifetime() {
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse::<IpAddr>().expect("an address"));
        let (mut recent, begin) = (RecentAddresses::default(), Instant::now());
        assert_eq!(recent.add(begin, [a].into()), [a].into());
        assert_eq!(recent.add(begin + ADDRESS_LIFETIME / 2, [b].into()), [a, b].into());
        assert_eq!(recent.add(begin + ADDRESS_LIFETIME, BTreeSet::new()), [b].into());
        assert_eq!(recent.add(begin + 2 * ADDRESS_LIFETIME, BTreeSet::new()), BTreeSet::new());
    }
}
