//! Look-ups of names. While name servers do not answer, each look-up blocks a thread in the system's resolver. The
//! number of concurrent look-ups is limited, so that threads remain for other work; further look-ups wait.
//!
//! A and AAAA records are queried separately (RFC 8305 §3), because some name servers never answer queries for one of
//! these types. Each family has its own limit, so that unanswered queries of one family do not delay those of the
//! other.

use crate::local_address::has_route;
use crate::network::Network;
use crate::upstream::getaddrinfo::{Family, look_up};
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum number of concurrent look-ups of one family.
const MAX_LOOKUPS: usize = 256;
/// Maximum number of concurrent look-ups of one family for one client, so that unanswered look-ups of a client do not
/// delay those of other clients.
const MAX_LOOKUPS_PER_CLIENT: usize = 32;
/// Number of threads for blocking work: as many as look-ups of both families can use, and the same number again for
/// other work.
pub const BLOCKING_THREADS: usize = 4 * MAX_LOOKUPS;
/// Time to wait for AAAA records after the A records have arrived ("Resolution Delay", RFC 8305 §3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// Addresses of a host: those already known, and those of a family whose answer is outstanding.
#[derive(Debug, Default)]
pub struct Addresses {
    /// Known addresses in order of preference.
    pub ready: Vec<SocketAddr>,
    pending: JoinSet<io::Result<Vec<SocketAddr>>>,
}

impl Addresses {
    /// Waits for the outstanding addresses and returns them. The result is empty if no answer is outstanding, or if the
    /// answer contains no address. Cancel-safe.
    pub async fn later(&mut self) -> Vec<SocketAddr> {
        while let Some(ended) = self.pending.join_next().await {
            if let Ok(Ok(found)) = ended {
                return found;
            }
        }
        Vec::new()
    }

    /// True if an answer is outstanding.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

impl From<Vec<SocketAddr>> for Addresses {
    fn from(ready: Vec<SocketAddr>) -> Self {
        Self { ready, pending: JoinSet::new() }
    }
}

/// A client to which the limit of look-ups applies: a user, from any address, or without a login a source network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// A user by name.
    User(Vec<u8>),
    /// A source network.
    Source(Network),
}

impl Client {
    /// Creates the client from its address, and its name if it has logged in.
    pub fn new(user: Option<Vec<u8>>, address: IpAddr) -> Self {
        user.map_or_else(|| Self::Source(Network::of_host(address)), Self::User)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "the user {}", String::from_utf8_lossy(name)),
            Self::Source(network) => write!(f, "{}", network.address()),
        }
    }
}

/// Looks up names.
pub struct Resolver([Arc<FamilyLookups>; 2]);

/// Look-ups of one address family.
struct FamilyLookups {
    family: Family,
    slots: Arc<Semaphore>,
    /// Slots of each client with running look-ups.
    slots_of: Mutex<BTreeMap<Client, Weak<Semaphore>>>,
    max_per_client: usize,
    max_wait: Duration,
}

impl Resolver {
    /// Creates a resolver for connections with `connect_timeout`. A look-up waits at most half of it for a free slot,
    /// so that the log contains the cause before the connection times out.
    pub fn new(connect_timeout: Duration) -> Self {
        let lookups =
            |family| FamilyLookups::new(family, MAX_LOOKUPS, MAX_LOOKUPS_PER_CLIENT, connect_timeout / 2);
        Self([Family::V6, Family::V4].map(|family| Arc::new(lookups(family))))
    }

    /// Looks up the addresses of a host, on behalf of a client if one is given. Returns as soon as one family has an
    /// address, but waits 50 ms for IPv6 addresses after IPv4 ones. [`Addresses::later`] returns those of the other
    /// family.
    ///
    /// # Errors
    /// `HostUnreachable` if the host has no address; `TimedOut` if no slot became free in time.
    pub async fn addresses(&self, client: Option<Client>, name: &str, port: u16) -> io::Result<Addresses> {
        if let Ok(ip) = name.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)].into());
        }
        let mut pending = JoinSet::new();
        for lookups in &self.0 {
            let (lookups, name, family) = (Arc::clone(lookups), name.to_owned(), lookups.family);
            let client = client.clone();
            pending.spawn(async move { lookups.run(client, move || look_up(&name, port, family)).await });
        }
        first_addresses(pending).await
    }
}

/// Splits `HOST:PORT`; the host may be an IPv6 address in brackets.
pub fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() { None } else { Some((host, port.parse().ok()?)) }
}

/// Waits for the first family with addresses; after A records, waits [`RESOLUTION_DELAY`] for AAAA records.
async fn first_addresses(mut pending: JoinSet<io::Result<Vec<SocketAddr>>>) -> io::Result<Addresses> {
    let mut failure: io::Error = ErrorKind::HostUnreachable.into();
    while let Some(ended) = pending.join_next().await {
        match ended.map_err(io::Error::other).flatten() {
            Ok(mut ready) if !ready.is_empty() => {
                if ready[0].is_ipv4()
                    && let Ok(Some(Ok(Ok(found)))) = timeout(RESOLUTION_DELAY, pending.join_next()).await
                {
                    ready.splice(0..0, found);
                }
                // RFC 6724 §6, rule 1: addresses without a route come last.
                ready.sort_by_key(|address| !has_route(address.ip()));
                return Ok(Addresses { ready, pending });
            }
            Ok(_) => {}
            // The error `TimedOut` of the limit is kept, because it explains the failure better.
            Err(error) if failure.kind() == ErrorKind::TimedOut => drop(error),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Looks up the addresses of a host and blocks until they are known, for callers outside an asynchronous runtime. After
/// the addresses of the first family, it waits at most `max_wait` for those of the second.
///
/// # Errors
/// The errors of [`Resolver::addresses`], or that no thread can be started.
pub fn addresses_blocking(name: &str, port: u16, max_wait: Duration) -> io::Result<Vec<SocketAddr>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let mut addresses = Resolver::new(Duration::MAX).addresses(None, name, port).await?;
        let later = timeout(max_wait, addresses.later()).await.unwrap_or_default();
        addresses.ready.extend(later);
        Ok(addresses.ready)
    });
    // Returns without waiting for threads that still wait for a name server.
    runtime.shutdown_background();
    found
}

impl FamilyLookups {
    fn new(family: Family, max_lookups: usize, max_per_client: usize, max_wait: Duration) -> Self {
        let slots = Arc::new(Semaphore::new(max_lookups));
        Self { family, slots, slots_of: Mutex::default(), max_per_client, max_wait }
    }

    /// Returns the semaphore with the slots of a client.
    fn slots_of(&self, client: &Client) -> Arc<Semaphore> {
        let mut slots_of = self.slots_of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slots) = slots_of.get(client).and_then(Weak::upgrade) {
            return slots;
        }
        slots_of.retain(|_, slots| slots.strong_count() > 0);
        let slots = Arc::new(Semaphore::new(self.max_per_client));
        slots_of.insert(client.clone(), Arc::downgrade(&slots));
        slots
    }

    /// Waits for a free slot and runs a look-up in a thread.
    async fn run(
        &self,
        client: Option<Client>,
        look_up: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> io::Result<Vec<SocketAddr>> {
        let full = |names: String| {
            let message = format!("{names} are already being looked up; the name servers are slow");
            io::Error::new(ErrorKind::TimedOut, message)
        };
        let end = Instant::now().checked_add(self.max_wait);
        let acquire = async |slots: Arc<Semaphore>| match end {
            Some(end) => timeout_at(end, slots.acquire_owned()).await.ok()?.ok(),
            None => slots.acquire_owned().await.ok(),
        };
        let client_slot = match client {
            Some(client) => {
                let slot = acquire(self.slots_of(&client)).await;
                Some(slot.ok_or_else(|| full(format!("{} names of {client}", self.max_per_client)))?)
            }
            None => None,
        };
        let slot = acquire(Arc::clone(&self.slots)).await;
        let slot = slot.ok_or_else(|| full(format!("{MAX_LOOKUPS} names")))?;
        // The slots are held until the thread has finished, even if the client disconnects earlier.
        let looking = tokio::task::spawn_blocking(move || {
            let found = look_up();
            drop((slot, client_slot));
            found
        });
        looking.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn lookups(max_lookups: usize, max_per_client: usize) -> Arc<FamilyLookups> {
        Arc::new(FamilyLookups::new(Family::V4, max_lookups, max_per_client, Duration::from_millis(50)))
    }

    /// Creates a look-up that ends when the sender of the channel is dropped.
    fn unanswered(
        answered: &Arc<Mutex<Receiver<()>>>,
    ) -> impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static {
        let answered = Arc::clone(answered);
        move || {
            let _ended = answered.lock().unwrap().recv();
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn slow_names_of_a_client_block_no_other() {
        let lookups = lookups(8, 2);
        let [one, other] =
            ["192.0.2.1", "192.0.2.2"].map(|client| Client::new(None, client.parse().unwrap()));
        let (answer, answered) = channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        for _ in 0..2 {
            assert!(
                timeout(Duration::from_millis(20), lookups.run(Some(one.clone()), unanswered(&answered)))
                    .await
                    .is_err()
            );
        }
        let busy = lookups.run(Some(one.clone()), || Ok(Vec::new())).await.unwrap_err();
        assert!(busy.kind() == ErrorKind::TimedOut && busy.to_string().starts_with("2 names of 192.0.2.1 "));
        assert!(lookups.run(Some(other.clone()), || Ok(Vec::new())).await.is_ok());
        drop(answer);
        assert!(lookups.run(Some(one.clone()), || Ok(Vec::new())).await.is_ok());
        assert!(lookups.run(Some(other.clone()), || Ok(Vec::new())).await.is_ok());
        // Clients without a running look-up are removed at the next look-up.
        for _ in 0..1000 {
            drop(lookups.slots_of(&other));
            if lookups.slots_of.lock().unwrap().len() == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("clients without a look-up are remembered");
    }

    #[test]
    fn user_counts_as_one_client_at_all_addresses() {
        let lookups = lookups(8, 2);
        let client = |user: Option<&[u8]>, address: &str| {
            Client::new(user.map(Vec::from), address.parse().expect("an address"))
        };
        let slots = lookups.slots_of(&client(Some(b"alice"), "192.0.2.1"));
        assert!(Arc::ptr_eq(&slots, &lookups.slots_of(&client(Some(b"alice"), "2001:db8::1"))));
        assert!(!Arc::ptr_eq(&slots, &lookups.slots_of(&client(Some(b"bob"), "192.0.2.1"))));
        assert!(!Arc::ptr_eq(&slots, &lookups.slots_of(&client(None, "192.0.2.1"))));
    }

    #[tokio::test]
    async fn slow_name_servers_take_limited_threads() {
        let lookups = lookups(2, 2);
        let (answer, answered) = channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        for _ in 0..2 {
            // The caller stops waiting, but its thread still waits for the name server.
            assert!(
                timeout(Duration::from_millis(20), lookups.run(None, unanswered(&answered))).await.is_err()
            );
        }
        let busy = lookups.run(None, || Ok(Vec::new())).await.unwrap_err();
        assert!(busy.kind() == ErrorKind::TimedOut && busy.to_string().contains("name servers are slow"));
        assert!(tokio::task::spawn_blocking(|| true).await.unwrap());
        drop(answer);
        let resolver = Resolver::new(Duration::from_secs(10));
        assert!(resolver.addresses(None, "127.0.0.1", 80).await.is_ok());
        let none = resolver.addresses(None, "no-such-host.invalid", 80).await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::HostUnreachable);
    }

    /// One address family answers at once, and the other one later.
    #[tokio::test]
    async fn silent_family_does_not_delay_the_other() {
        for known in ["127.0.0.1:80", "[::1]:80"].map(|address| address.parse::<SocketAddr>().unwrap()) {
            let (answer, answered) = tokio::sync::oneshot::channel::<Vec<SocketAddr>>();
            let mut pending = JoinSet::new();
            pending.spawn(async move { Ok(vec![known]) });
            pending.spawn(async move { answered.await.map_err(io::Error::other) });
            let mut addresses = first_addresses(pending).await.unwrap();
            assert!(addresses.ready == [known] && addresses.has_pending());
            let late = vec!["192.0.2.1:80".parse().unwrap()];
            answer.send(late.clone()).unwrap();
            assert_eq!(addresses.later().await, late);
            assert!(addresses.later().await.is_empty());
        }
    }

    #[tokio::test]
    async fn family_without_addresses_waits_for_the_other() {
        let mut pending = JoinSet::new();
        pending.spawn(async { Err(ErrorKind::HostUnreachable.into()) });
        pending.spawn(async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(vec!["127.0.0.1:80".parse().unwrap()])
        });
        assert_eq!(first_addresses(pending).await.unwrap().ready.len(), 1);
    }
}
