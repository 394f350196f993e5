//! The addresses of names that are not sent by the proxy.

use crate::config::Router;
use crate::connect::Attempts;
use crate::log::Limited;
use crate::resolver::{Resolver, host_and_port};
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// How often names are resolved.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(60);

/// Time for which an address is kept after the last look-up with it: hosts may have it from an earlier answer.
const ADDRESS_LIFETIME: Duration = Duration::from_secs(3600);

static UNKNOWN: Limited = Limited::new();
/// The addresses that names have had of late.
#[derive(Debug, Default)]
pub struct Seen(BTreeMap<IpAddr, Instant>);

impl Seen {
    /// These are had now; returns all that are kept.
    pub fn add(&mut self, now: Instant, addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        self.0.extend(addresses.into_iter().map(|address| (address, now)));
        self.0.retain(|_, had| now.saturating_duration_since(*had) < ADDRESS_LIFETIME);
        self.0.keys().copied().collect()
    }
}

/// Names of servers that are bypassed, and the name of the proxy, to which hosts may go on their own.
pub struct Names {
    /// Hosts and ports.
    asked: Vec<(String, u16)>,
    resolver: Resolver,
    seen: Seen,
    /// Look-ups of a second family.
    pending: JoinSet<Vec<SocketAddr>>,
    has_unknown: bool,
}

impl Names {
    /// The names of the settings.
    pub fn new(router: &Router) -> Self {
        let names = router.bypass.names.iter().map(|name| (name.as_ref().clone(), 0));
        let proxy = host_and_port(&router.via.as_ref().proxy).map(|(host, port)| (host.to_owned(), port));
        Self {
            asked: names.chain(proxy).collect(),
            resolver: Resolver::new(Duration::MAX),
            seen: Seen::default(),
            pending: JoinSet::new(),
            has_unknown: false,
        }
    }

    /// Looks all names up at once; returns all addresses that are kept. Those of a family that is late follow by
    /// [`Self::follow`] or [`Self::complete`].
    pub async fn look_up(&mut self) -> BTreeSet<IpAddr> {
        let (mut found, mut unknown, mut under_way) = (BTreeSet::new(), Vec::new(), Attempts::new());
        for (name, port) in &self.asked {
            let resolver = &self.resolver;
            under_way.add(async move { (name, resolver.addresses(None, name, *port).await) });
        }
        while !under_way.is_empty() {
            match under_way.next_ended().await {
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
            UNKNOWN.say(format_args!("router: cannot look up {}", unknown.join(", ")));
        }
        self.seen.add(Instant::now(), found)
    }

    /// Waits for the second families of names, no longer than this; returns all addresses that are kept.
    pub async fn complete(&mut self, max_wait: Duration) -> BTreeSet<IpAddr> {
        let completing = async { while self.next_late().await.is_some() {} };
        // Addresses that are later are left out.
        drop(timeout(max_wait, completing).await);
        self.seen.add(Instant::now(), BTreeSet::new())
    }

    /// Adds the addresses of the next look-up that is late; nothing if there is none.
    async fn next_late(&mut self) -> Option<()> {
        let late = self.pending.join_next().await?.unwrap_or_default();
        self.seen.add(Instant::now(), late.iter().map(SocketAddr::ip).collect());
        Some(())
    }

    /// Looks names up at intervals, and at once when links have changed and a name is unknown. Sends the addresses when they have
    /// changed.
    pub async fn follow(mut self, links_changed: &Notify, changed: mpsc::Sender<BTreeSet<IpAddr>>) {
        let mut sent: BTreeSet<IpAddr> = self.seen.0.keys().copied().collect();
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
            let now: BTreeSet<IpAddr> = self.seen.0.keys().copied().collect();
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
        let (mut seen, begin) = (Seen::default(), Instant::now());
        assert_eq!(seen.add(begin, [a].into()), [a].into());
        assert_eq!(seen.add(begin + ADDRESS_LIFETIME / 2, [b].into()), [a, b].into());
        assert_eq!(seen.add(begin + ADDRESS_LIFETIME, BTreeSet::new()), [b].into());
        assert_eq!(seen.add(begin + 2 * ADDRESS_LIFETIME, BTreeSet::new()), BTreeSet::new());
    }
}
