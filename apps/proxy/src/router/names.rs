//! Addresses of the names in `bypass`, to which hosts connect without the proxy, and of those in `only`.

use crate::config::Router;
use crate::log::RateLimited;
use crate::upstream::connect::Attempts;
use crate::upstream::resolver::{Resolver, host_and_port};
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

/// List to which a name belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Bypass,
    Only,
}

/// Recent addresses of names, by list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedAddresses {
    /// Addresses of the names in `bypass` and of the upstream proxy.
    pub bypass: BTreeSet<IpAddr>,
    /// Addresses of the names in `only`.
    pub only: BTreeSet<IpAddr>,
}

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

/// The names in `bypass` and `only`, and the name of the upstream proxy, to which hosts connect directly.
pub struct Names {
    /// Names and ports to look up.
    to_look_up: Vec<(String, u16, List)>,
    resolver: Resolver,
    /// Addresses of the names in `bypass`, and in `only`.
    recent: [RecentAddresses; 2],
    /// Running look-ups of the second address family.
    pending: JoinSet<(List, Vec<SocketAddr>)>,
    has_unknown: bool,
}

impl Names {
    /// Creates the list of names from the settings.
    pub fn new(router: &Router) -> Self {
        let bypass = router.bypass.names.iter().map(|name| (name.as_ref().clone(), 0, List::Bypass));
        let only = router.only.iter().flat_map(|only| &only.as_ref().names);
        let only = only.map(|name| (name.as_ref().clone(), 0, List::Only));
        let proxy = host_and_port(&router.via.as_ref().proxy);
        let proxy = proxy.map(|(host, port)| (host.to_owned(), port, List::Bypass));
        Self {
            to_look_up: bypass.chain(only).chain(proxy).collect(),
            resolver: Resolver::new(Duration::MAX),
            recent: Default::default(),
            pending: JoinSet::new(),
            has_unknown: false,
        }
    }

    /// Looks up all names concurrently; returns all recent addresses. [`Self::follow`] or [`Self::complete`] adds the
    /// addresses of the family that answers later.
    pub async fn look_up(&mut self) -> NamedAddresses {
        let (mut found, mut unknown, mut running) = (Vec::new(), Vec::new(), Attempts::new());
        for (name, port, list) in &self.to_look_up {
            let resolver = &self.resolver;
            running.add(async move { (name, *list, resolver.addresses(None, name, *port).await) });
        }
        while !running.is_empty() {
            match running.next_ended().await {
                (_, list, Ok(mut addresses)) => {
                    found.push((list, std::mem::take(&mut addresses.ready)));
                    if addresses.has_pending() {
                        self.pending.spawn(async move { (list, addresses.later().await) });
                    }
                }
                (name, _, Err(error)) => unknown.push(format!("{name} ({error})")),
            }
        }
        drop(running);
        self.has_unknown = !unknown.is_empty();
        if self.has_unknown {
            UNKNOWN.log_line(format_args!("router: cannot look up {}", unknown.join(", ")));
        }
        for (list, addresses) in found {
            self.add(list, &addresses);
        }
        self.recent()
    }

    fn add(&mut self, list: List, addresses: &[SocketAddr]) {
        let addresses = addresses.iter().map(SocketAddr::ip).collect();
        self.recent[list as usize].add(Instant::now(), addresses);
    }

    /// Removes old addresses and returns the others.
    fn recent(&mut self) -> NamedAddresses {
        let now = Instant::now();
        let [bypass, only] = self.recent.each_mut().map(|recent| recent.add(now, BTreeSet::new()));
        NamedAddresses { bypass, only }
    }

    /// Waits at most `max_wait` for the addresses of the second family; returns all recent addresses.
    pub async fn complete(&mut self, max_wait: Duration) -> NamedAddresses {
        let completing = async { while self.next_late().await.is_some() {} };
        // After the timeout, the look-ups still running are ignored.
        drop(timeout(max_wait, completing).await);
        self.recent()
    }

    /// Waits until a look-up of the second family ends, and adds its addresses; `None` if no such look-up is running.
    async fn next_late(&mut self) -> Option<()> {
        // A look-up that has failed adds no address.
        if let Ok((list, late)) = self.pending.join_next().await? {
            self.add(list, &late);
        }
        Some(())
    }

    /// Looks up names at intervals, and also when links change while a name has no address. After each change of the
    /// addresses, sends all of them to `changed`.
    pub async fn follow(mut self, links_changed: &Notify, changed: mpsc::Sender<NamedAddresses>) {
        let mut sent = self.recent();
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
            let now = self.recent();
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
