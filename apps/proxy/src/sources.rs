//! How many connections each source has, so that one cannot take all places.

use super::network::Network;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Networks of IPv6 that an address is counted with, and how many times the limit of a source each may have: a host has a /64,
/// and a customer a /56 or a /48 (RFC 6177).
const LEVELS: [(u8, usize); 3] = [(64, 1), (56, 2), (48, 4)];

/// Connections that are open, by source.
pub struct Sources {
    most: usize,
    open: Mutex<BTreeMap<Network, usize>>,
}

/// A place that a connection has, until it is dropped.
pub struct Place {
    sources: Arc<Sources>,
    networks: Vec<Network>,
}

/// The networks of an address, with their limits.
fn networks(address: IpAddr, most: usize) -> Vec<(Network, usize)> {
    let address = address.to_canonical();
    if address.is_ipv4() {
        return vec![(Network::of_host(address), most)];
    }
    LEVELS.map(|(bits, times)| (Network::of(address, bits), most.saturating_mul(times))).to_vec()
}

impl Sources {
    /// Allows each source this number of connections.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default() })
    }

    /// A place for a connection from an address; none if its source has as many as it may.
    pub fn place(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let limits = networks(address, self.most);
        let mut open = self.lock();
        if limits.iter().any(|(network, most)| open.get(network).is_some_and(|count| count >= most)) {
            return None;
        }
        let networks: Vec<_> = limits.into_iter().map(|(network, _)| network).collect();
        for &network in &networks {
            *open.entry(network).or_default() += 1;
        }
        drop(open);
        Some(Place { sources: Arc::clone(self), networks })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Network, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
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
        let place = |text: &str| sources.place(text.parse().unwrap());
        let held = [place("2001:db8::1"), place("2001:db8::2")];
        assert!(held.iter().all(Option::is_some));
        assert!(place("2001:db8::3").is_none() && place("2001:db8:0:1::1").is_some());
        assert!(place("192.0.2.1").is_some());
        drop(held);
        assert!(place("2001:db8::3").is_some());
        assert!(sources.lock().is_empty());
    }

    #[test]
    fn customer_with_many_networks_has_limited_places() {
        let sources = Sources::new(2);
        let place = |text: String| sources.place(text.parse().unwrap());
        let of_a_home = (0..10).filter_map(|net| place(format!("2001:db8:7:{net}::1"))).collect::<Vec<_>>();
        assert_eq!(of_a_home.len(), 4);
        let of_site =
            (1..100).filter_map(|net| place(format!("2001:db8:7:{net:x}00::1"))).collect::<Vec<_>>();
        assert_eq!(of_site.len(), 4);
        assert!(place("2001:db8:8::1".to_owned()).is_some());
    }
}
