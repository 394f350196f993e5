//! Open connections, and totals of those that have ended.

use super::connection::{Carried, EndSample, Kind};
use super::uplinks::{self, Side};
use core::net::{IpAddr, SocketAddr};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { next: 0, open: BTreeMap::new(), ended: BTreeMap::new() });

struct Registry {
    next: u64,
    open: BTreeMap<u64, Open>,
    /// Of each service.
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
    /// Connections that are open.
    pub open: u64,
    /// Connections there have been, those that are open among them.
    pub connections: u64,
    /// Of them, those whose client came by Multipath TCP.
    pub multipath: u64,
    /// Bytes from clients to servers.
    pub up_bytes: u64,
    /// Bytes from servers to clients.
    pub down_bytes: u64,
}

/// A connection while it is open.
pub struct Watched {
    number: u64,
    /// Its totals.
    pub carried: Arc<Carried>,
}

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection of a service from a client to a target, until what is returned is dropped.
pub fn open(service: &str, client: SocketAddr, target: &impl ToString) -> Watched {
    register(service, client, target, Carried::default())
}

/// The same of a client that was handed over on its way to the target.
pub fn open_intercepted(service: &str, client: SocketAddr, target: &impl ToString) -> Watched {
    register(service, client, target, Carried::intercepted())
}

fn register(service: &str, client: SocketAddr, target: &impl ToString, carried: Carried) -> Watched {
    let carried = Arc::new(carried);
    let mut registry = lock();
    let number = registry.next;
    registry.next += 1;
    let (service, target, since) = (service.to_owned(), target.to_string(), Instant::now());
    registry.open.insert(number, Open { service, client, target, since, carried: Arc::clone(&carried) });
    Watched { number, carried }
}

impl Drop for Watched {
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
        self.up_bytes += carried.up.load(Ordering::Relaxed);
        self.down_bytes += carried.down.load(Ordering::Relaxed);
    }
}

/// All that is known at one time.
#[derive(Debug, Serialize)]
pub struct Snapshot {
    /// Services by their names.
    pub services: BTreeMap<String, Totals>,
    /// Addresses of this machine.
    pub uplinks: Vec<Uplink>,
    /// Open connections, those that have carried most first.
    pub connections: Vec<Connection>,
    /// Open connections that are not listed.
    pub left_off: usize,
    /// Ends of open connections that have fallen back to TCP.
    pub fallbacks: usize,
}

/// An address of this machine, and its totals.
#[derive(Debug, Serialize)]
pub struct Uplink {
    /// The address.
    pub address: IpAddr,
    /// With whom.
    pub side: Side,
    /// Subflows, or connections with TCP, that are open.
    pub subflows: usize,
    /// Totals of present and earlier subflows.
    #[serde(flatten)]
    pub carried: uplinks::Carried,
}

/// An open connection.
#[derive(Debug, Serialize)]
pub struct Connection {
    /// Its number.
    pub number: u64,
    /// Its service.
    pub service: String,
    /// Its client.
    pub client: SocketAddr,
    /// Its target.
    pub target: String,
    /// Since when, seconds ago.
    pub age_s: u64,
    /// Bytes from the client to the server.
    pub up_bytes: u64,
    /// Bytes from the server to the client.
    pub down_bytes: u64,
    /// Longest time that bytes waited for their receiver, µs.
    pub longest_wait_us: u64,
    /// How its ends are, that of the client first.
    pub ends: Vec<EndSample>,
}

/// Connections that are listed.
const LISTED: usize = 1000;

/// Looks at all connections.
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
    // The kernel is asked while connections come and go.
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
    let left_off = connections.len().saturating_sub(LISTED);
    connections.truncate(LISTED);
    Snapshot { services, uplinks, connections, left_off, fallbacks }
}

fn connection(number: u64, open: &Open) -> Connection {
    Connection {
        number,
        service: open.service.clone(),
        client: open.client,
        target: open.target.clone(),
        age_s: open.since.elapsed().as_secs(),
        up_bytes: open.carried.up.load(Ordering::Relaxed),
        down_bytes: open.carried.down.load(Ordering::Relaxed),
        longest_wait_us: open.carried.longest_wait_us(),
        ends: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_connections_still_count() {
        let client = "192.0.2.1:5".parse().unwrap();
        let (first, second) = (open("here", client, &"there:1"), open("here", client, &"there:2"));
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
