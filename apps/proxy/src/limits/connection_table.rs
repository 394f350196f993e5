//! Open connections by site. At the limit of connections, one connection of the site with the most connections is
//! closed.

use crate::network::Network;
use core::net::IpAddr;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Prefix lengths of a site: /24 for IPv4, /48 for IPv6 (RFC 6177).
const SITE_BITS: [u8; 2] = [24, 48];

/// Stage of a client's connection, which decides whether the connection may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The request is incomplete.
    Handshake,
    /// The client is served without a login.
    Served,
    /// The client has logged in. Its connection is never evicted.
    LoggedIn,
}

#[derive(Debug)]
struct Connection {
    site: Network,
    stage: Stage,
    evicted: Arc<Notify>,
}

#[derive(Default)]
struct Connections {
    next_number: u64,
    all: BTreeMap<u64, Connection>,
    /// Numbers of the connections, by stage and site.
    by_site: BTreeMap<(Stage, Network), BTreeSet<u64>>,
}

/// Table of open connections.
#[derive(Clone, Default)]
pub struct ConnectionTable(Arc<Mutex<Connections>>);

/// Entry of a connection in the table; dropping it removes the entry.
pub struct ConnectionEntry {
    connections: ConnectionTable,
    number: u64,
    evicted: Arc<Notify>,
}

/// Returns the network of an address that counts as one site.
fn site(address: IpAddr) -> Network {
    let address = address.to_canonical();
    Network::of(address, SITE_BITS[usize::from(address.is_ipv6())])
}

impl ConnectionTable {
    /// Adds a connection from an address. The client has not yet completed its request.
    pub fn add(&self, address: IpAddr) -> ConnectionEntry {
        let evicted = Arc::new(Notify::new());
        let connection =
            Connection { site: site(address), stage: Stage::Handshake, evicted: Arc::clone(&evicted) };
        let mut table = self.lock();
        let number = table.next_number;
        table.next_number += 1;
        table.insert(number, connection);
        drop(table);
        ConnectionEntry { connections: self.clone(), number, evicted }
    }

    /// Closes a connection to make room for a client at `address`; returns false if no connection may be closed. First
    /// choice: among connections with an incomplete request, the oldest of the site that has the most of them. Second
    /// choice: among connections without a login, the oldest of the site that has the most of them, if that site has at
    /// least two more than the client's site.
    pub fn evict_one_for(&self, address: IpAddr) -> bool {
        let mut table = self.lock();
        let count_of_client = table.by_site.get(&(Stage::Served, site(address))).map_or(0, BTreeSet::len);
        let served = || table.largest(Stage::Served).filter(|(count, _)| *count > count_of_client + 1);
        let Some((_, victim)) = table.largest(Stage::Handshake).or_else(served) else { return false };
        if let Some(connection) = table.remove(victim) {
            connection.evicted.notify_one();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn insert(&mut self, number: u64, connection: Connection) {
        self.by_site.entry((connection.stage, connection.site)).or_default().insert(number);
        self.all.insert(number, connection);
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.all.remove(&number)?;
        let key = (connection.stage, connection.site);
        if let Some(numbers) = self.by_site.get_mut(&key) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_site.remove(&key);
            }
        }
        Some(connection)
    }

    /// Returns, among the connections at this stage, the count of the site with the most, and the number of the oldest
    /// connection of this site.
    fn largest(&self, stage: Stage) -> Option<(usize, u64)> {
        let sites = self.by_site.iter().filter(|((of, _), _)| *of == stage);
        let counted = sites.filter_map(|(_, numbers)| Some((numbers.len(), Reverse(*numbers.first()?))));
        counted.max().map(|(count, Reverse(oldest))| (count, oldest))
    }
}

impl ConnectionEntry {
    /// Records that the request is complete, and whether the client has logged in.
    pub fn admit(&self, has_logged_in: bool) {
        let mut table = self.connections.lock();
        if let Some(connection) = table.remove(self.number) {
            let stage = if has_logged_in { Stage::LoggedIn } else { Stage::Served };
            table.insert(self.number, Connection { stage, ..connection });
        }
    }

    /// Waits until the connection is evicted.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        self.connections.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    async fn is_evicted(entry: &ConnectionEntry) -> bool {
        tokio::select! {
            biased;
            () = entry.evicted() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn oldest_handshake_of_largest_site_is_evicted() {
        let connections = ConnectionTable::default();
        let add = |text: &str| connections.add(address(text));
        let others = [add("198.51.100.1"), add("192.0.2.1"), add("192.0.2.2")];
        others[1].admit(false);
        let largest = [add("2001:db8:7::1"), add("2001:db8:7:1::1"), add("2001:db8:7:ffff::1")];
        assert!(connections.evict_one_for(address("203.0.113.1")));
        assert!(is_evicted(&largest[0]).await && !is_evicted(&largest[1]).await);
        for entry in &others {
            assert!(!is_evicted(entry).await);
        }
        drop((others, largest));
        assert!(!connections.evict_one_for(address("203.0.113.1")));
        assert!(connections.lock().all.is_empty() && connections.lock().by_site.is_empty());
    }

    #[tokio::test]
    async fn logged_in_clients_are_not_evicted() {
        let connections = ConnectionTable::default();
        let admitted = |text: &str, has_logged_in| {
            let entry = connections.add(address(text));
            entry.admit(has_logged_in);
            entry
        };
        let users: Vec<_> = (0..9).map(|_| admitted("192.0.2.1", true)).collect();
        assert!(!connections.evict_one_for(address("203.0.113.1")));
        let strangers: Vec<_> = (0..3).map(|_| admitted("198.51.100.1", false)).collect();
        // No connection is evicted for a site that has the same number of connections.
        let equal: Vec<_> = (0..2).map(|_| admitted("203.0.113.1", false)).collect();
        assert!(!connections.evict_one_for(address("203.0.113.2")));
        assert!(connections.evict_one_for(address("192.0.2.2")));
        assert!(is_evicted(&strangers[0]).await);
        for entry in users.iter().chain(&equal).chain(&strangers[1..]) {
            assert!(!is_evicted(entry).await);
        }
    }
}
