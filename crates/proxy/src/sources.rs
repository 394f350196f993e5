//! How many connections each source has, so that one cannot take all places.

use super::network::Network;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that are open, by source.
pub struct Sources {
    most: usize,
    open: Mutex<BTreeMap<Network, usize>>,
}

/// A place that a connection has, until it is dropped.
pub struct Place {
    sources: Arc<Sources>,
    source: Network,
}

impl Sources {
    /// Allows each source this number of connections.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default() })
    }

    /// A place for a connection from an address; none if its source has as many as it may.
    pub fn place(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let source = Network::of_host(address);
        let mut open = self.lock();
        let count = open.entry(source).or_default();
        (*count < self.most).then(|| {
            *count += 1;
            Place { sources: Arc::clone(self), source }
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Network, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.sources.lock();
        if let Some(count) = open.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_so_many_places_and_no_more() {
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
}
