//! Limit of open connections per source, so that one source cannot use all connections of the proxy.

use crate::network::Network;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// IPv6 prefix lengths at which connections are counted, each with the factor by which `max_per_source` is multiplied
/// for it. A host has a /64; a customer has a /56 or a /48 (RFC 6177).
const LEVELS: [(u8, usize); 3] = [(64, 1), (56, 2), (48, 4)];

/// Number of open connections by source.
pub struct Sources {
    max_per_source: usize,
    open: Mutex<BTreeMap<Network, usize>>,
}

/// A connection that is counted for its source until this value is dropped.
pub struct CountedConnection {
    sources: Arc<Sources>,
    networks: Vec<Network>,
}

/// Returns the networks in which connections from an address are counted, with their limits.
fn networks(address: IpAddr, max_per_source: usize) -> Vec<(Network, usize)> {
    let address = address.to_canonical();
    if address.is_ipv4() {
        return vec![(Network::of_host(address), max_per_source)];
    }
    LEVELS.map(|(bits, times)| (Network::of(address, bits), max_per_source.saturating_mul(times))).to_vec()
}

impl Sources {
    /// Creates the counts; `max_per_source` is the limit for one source.
    pub fn new(max_per_source: usize) -> Arc<Self> {
        Arc::new(Self { max_per_source, open: Mutex::default() })
    }

    /// Counts a connection from an address; `None` if its source has reached the limit.
    pub fn try_count(self: &Arc<Self>, address: IpAddr) -> Option<CountedConnection> {
        let limits = networks(address, self.max_per_source);
        let mut open = self.lock();
        if limits.iter().any(|(network, max)| open.get(network).is_some_and(|count| count >= max)) {
            return None;
        }
        let networks: Vec<_> = limits.into_iter().map(|(network, _)| network).collect();
        for &network in &networks {
            *open.entry(network).or_default() += 1;
        }
        drop(open);
        Some(CountedConnection { sources: Arc::clone(self), networks })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Network, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut open = self.sources.lock();
        for network in &self.networks {
            if let Some(count) = open.get_mut(network) {
                *count -= 1;
                if *count == 0 {
                    open.remove(network);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_per_source_are_limited() {
        let sources = Sources::new(2);
        let try_count = |text: &str| sources.try_count(text.parse().unwrap());
        let held = [try_count("2001:db8::1"), try_count("2001:db8::2")];
        assert!(held.iter().all(Option::is_some));
        assert!(try_count("2001:db8::3").is_none() && try_count("2001:db8:0:1::1").is_some());
        assert!(try_count("192.0.2.1").is_some());
        drop(held);
        assert!(try_count("2001:db8::3").is_some());
        assert!(sources.lock().is_empty());
    }

    #[test]
    fn connections_per_customer_are_limited() {
        let sources = Sources::new(2);
        let try_count = |text: String| sources.try_count(text.parse().unwrap());
        let of_home = (0..10).filter_map(|net| try_count(format!("2001:db8:7:{net}::1"))).collect::<Vec<_>>();
        assert_eq!(of_home.len(), 4);
        let of_site =
            (1..100).filter_map(|net| try_count(format!("2001:db8:7:{net:x}00::1"))).collect::<Vec<_>>();
        assert_eq!(of_site.len(), 4);
        assert!(try_count("2001:db8:8::1".to_owned()).is_some());
    }
}
