//! Registry of open connections, and totals of connections that have ended.

use super::connection::{Carried, EndSample, Kind};
use super::uplinks::{self, Side};
use core::net::{IpAddr, SocketAddr};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { next: 0, open: BTreeMap::new(), ended: BTreeMap::new() });

struct Registry {
    next: u64,
    open: BTreeMap<u64, Open>,
    /// Totals of connections that have ended, by service.
    ended: BTreeMap<String, Totals>,
}

struct Open {
    service: String,
    client: SocketAddr,
    target: String,
    since: Instant,
    carried: Arc<Carried>,
}

/// Totals of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Open connections.
    pub open: u64,
    /// Number of all connections, including the open ones.
    pub connections: u64,
    /// Connections whose client used Multipath TCP.
    pub multipath: u64,
    /// Bytes from clients to servers.
    pub up_bytes: u64,
    /// Bytes from servers to clients.
    pub down_bytes: u64,
}

/// Entry of an open connection. Dropping it adds the connection to those that have ended.
pub struct RegisteredConnection {
    number: u64,
    /// Counters of the connection.
    pub carried: Arc<Carried>,
}

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a connection of a service from a client to a target, until the returned entry is dropped.
pub fn register(service: &str, client: SocketAddr, target: &impl ToString) -> RegisteredConnection {
    insert(service, client, target, Carried::default())
}

/// Registers an intercepted connection.
pub fn register_intercepted(
    service: &str,
    client: SocketAddr,
    target: &impl ToString,
) -> RegisteredConnection {
    insert(service, client, target, Carried::intercepted())
}

fn insert(
    service: &str,
    client: SocketAddr,
    target: &impl ToString,
    carried: Carried,
) -> RegisteredConnection {
    let carried = Arc::new(carried);
    let mut registry = lock();
    let number = registry.next;
    registry.next += 1;
    let (service, target, since) = (service.to_owned(), target.to_string(), Instant::now());
    registry.open.insert(number, Open { service, client, target, since, carried: Arc::clone(&carried) });
    RegisteredConnection { number, carried }
}

impl Drop for RegisteredConnection {
    fn drop(&mut self) {
        let mut registry = lock();
        if let Some(open) = registry.open.remove(&self.number) {
            registry.ended.entry(open.service).or_default().add(&open.carried);
        }
    }
}

impl Totals {
    fn add(&mut self, carried: &Carried) {
        self.connections += 1;
        self.multipath += u64::from(carried.client_is_multipath() == Some(true));
        let [up, down] = carried.bytes();
        self.up_bytes += up;
        self.down_bytes += down;
    }
}

/// Status of the proxy at one time.
#[derive(Debug, Serialize)]
pub struct Snapshot {
    /// Totals of services by name.
    pub services: BTreeMap<String, Totals>,
    /// Local addresses of this machine with their totals.
    pub uplinks: Vec<Uplink>,
    /// Open connections, those with the most bytes first.
    pub connections: Vec<Connection>,
    /// Number of open connections that `connections` does not contain, because of its maximum length.
    pub left_off: usize,
    /// Number of ends of open connections that started as Multipath TCP and have fallen back to TCP.
    pub fallbacks: usize,
}

/// An address of this machine, and its totals.
#[derive(Debug, Serialize)]
pub struct Uplink {
    /// The address.
    pub address: IpAddr,
    /// Side of the peers with which this address exchanged data: clients or servers.
    pub side: Side,
    /// Open subflows and TCP connections.
    pub subflows: usize,
    /// Totals of current and earlier subflows.
    #[serde(flatten)]
    pub carried: uplinks::Carried,
}

/// An open connection.
#[derive(Debug, Serialize)]
pub struct Connection {
    /// Number of the connection.
    pub number: u64,
    /// Name of the service.
    pub service: String,
    /// Address of the client.
    pub client: SocketAddr,
    /// Target of the connection.
    pub target: String,
    /// Time since the connection was opened, seconds.
    pub age_s: u64,
    /// Bytes from the client to the server.
    pub up_bytes: u64,
    /// Bytes from the server to the client.
    pub down_bytes: u64,
    /// Longest time that bytes waited until their receiver could take them, µs.
    pub longest_wait_us: u64,
    /// Samples of the two ends, the client's end first.
    pub ends: Vec<EndSample>,
}

/// Maximum number of connections in a snapshot.
const MAX_LISTED: usize = 1000;

/// Samples all open connections and returns the status of the proxy.
pub fn snapshot() -> Snapshot {
    let mut connections = Vec::new();
    let mut services;
    {
        let registry = lock();
        services = registry.ended.clone();
        for (&number, open) in &registry.open {
            let totals = services.entry(open.service.clone()).or_default();
            totals.add(&open.carried);
            totals.open += 1;
            connections.push((connection(number, open), Arc::clone(&open.carried)));
        }
    }
    // The lock is not held while the kernel's counters are read, so connections can be opened and closed meanwhile.
    for (connection, carried) in &mut connections {
        connection.ends = carried.sample();
    }
    let mut connections: Vec<_> = connections.into_iter().map(|(connection, _)| connection).collect();
    let ends = || connections.iter().flat_map(|connection| &connection.ends);
    let fallbacks = ends().filter(|end| end.kind == Kind::Fallback).count();
    let uplinks = uplinks::all().into_iter().map(|((address, side), carried)| {
        let number = usize::from(side == Side::Server);
        let of_side = connections.iter().filter_map(|connection| connection.ends.get(number));
        let here = of_side.flat_map(|end| &end.subflows).filter(|subflow| subflow.local.ip() == address);
        Uplink { address, side, subflows: here.count(), carried }
    });
    let uplinks = uplinks.collect();
    connections.sort_by_key(|connection| std::cmp::Reverse(connection.up_bytes + connection.down_bytes));
    let left_off = connections.len().saturating_sub(MAX_LISTED);
    connections.truncate(MAX_LISTED);
    Snapshot { services, uplinks, connections, left_off, fallbacks }
}

fn connection(number: u64, open: &Open) -> Connection {
    let [up_bytes, down_bytes] = open.carried.bytes();
    Connection {
        number,
        service: open.service.clone(),
        client: open.client,
        target: open.target.clone(),
        age_s: open.since.elapsed().as_secs(),
        up_bytes,
        down_bytes,
        longest_wait_us: open.carried.longest_wait_us(),
        ends: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn ended_connections_are_in_the_totals() {
        let client = "192.0.2.1:5".parse().unwrap();
        let (first, second) = (register("here", client, &"there:1"), register("here", client, &"there:2"));
        first.carried.up.store(7, Ordering::Relaxed);
        second.carried.down.store(9, Ordering::Relaxed);
        drop(first);
        let snapshot = snapshot();
        let expected = Totals { open: 1, connections: 2, multipath: 0, up_bytes: 7, down_bytes: 9 };
        assert_eq!(snapshot.services["here"], expected);
        let listed: Vec<_> = snapshot.connections.iter().filter(|one| one.service == "here").collect();
        assert_eq!((listed.len(), listed[0].target.as_str(), listed[0].down_bytes), (1, "there:2", 9));
    }
}
