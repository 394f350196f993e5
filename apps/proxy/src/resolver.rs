//! Names become addresses. The system's resolver occupies a thread while name servers are silent, so the number of look-ups at
//! once is limited: further ones wait, and other work has threads.
//!
//! A and AAAA records are asked for apart (RFC 8305 §3), since some name servers never answer one of them. Each family has its
//! own limit: unanswered queries of one do not delay the other.

use super::getaddrinfo::{Family, look_up};
use super::local_address::has_route;
use super::network::Network;
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

/// Look-ups of one family at once.
const MAX_LOOKUPS: usize = 256;
/// Look-ups of one family at once for one client: a client with slow name servers does not delay others.
const MAX_LOOKUPS_PER_CLIENT: usize = 32;
/// Threads that the runtime needs for blocking work: look-ups of two families, and as many for everything else.
pub const BLOCKING_THREADS: usize = 4 * MAX_LOOKUPS;
/// Time for the AAAA records after the A records have come ("Resolution Delay", RFC 8305 §3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// Addresses of a host: those known, and those of a family whose answer is outstanding.
#[derive(Debug, Default)]
pub struct Addresses {
    /// Known addresses in order of preference.
    pub ready: Vec<SocketAddr>,
    pending: JoinSet<io::Result<Vec<SocketAddr>>>,
}

impl Addresses {
    /// Waits for the outstanding addresses; returns none if no answer is outstanding or the answer has none. Cancel-safe.
    pub async fn later(&mut self) -> Vec<SocketAddr> {
        while let Some(ended) = self.pending.join_next().await {
            if let Ok(Ok(found)) = ended {
                return found;
            }
        }
        Vec::new()
    }

    /// Whether an answer is outstanding.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

impl From<Vec<SocketAddr>> for Addresses {
    fn from(ready: Vec<SocketAddr>) -> Self {
        Self { ready, pending: JoinSet::new() }
    }
}

/// A client whose look-ups are counted together: a user from anywhere, or a source without a log-in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// A user by name.
    User(Vec<u8>),
    /// A source.
    Source(Network),
}

impl Client {
    /// A client at an address, with its name if it has logged in.
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

/// Looks names up.
pub struct Resolver([Arc<Lane>; 2]);

/// Look-ups of one family.
struct Lane {
    family: Family,
    slots: Arc<Semaphore>,
    /// Slots of each client that has look-ups under way.
    slots_of: Mutex<BTreeMap<Client, Weak<Semaphore>>>,
    max_per_client: usize,
    max_wait: Duration,
}

impl Resolver {
    /// For connections that may take `connect_timeout`: a look-up waits half of that for its turn, so that the log has the cause.
    pub fn new(connect_timeout: Duration) -> Self {
        let lane = |family| Lane::new(family, MAX_LOOKUPS, MAX_LOOKUPS_PER_CLIENT, connect_timeout / 2);
        Self([Family::V6, Family::V4].map(|family| Arc::new(lane(family))))
    }

    /// The addresses of a host, on behalf of a client if one is given. Returns when one family has an address, and for IPv4 50 ms
    /// after that at the latest; the other family may follow later.
    ///
    /// # Errors
    /// `HostUnreachable` if it has none; `TimedOut` if too many others are looked up.
    pub async fn addresses(&self, client: Option<Client>, name: &str, port: u16) -> io::Result<Addresses> {
        if let Ok(ip) = name.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)].into());
        }
        let mut pending = JoinSet::new();
        for lane in &self.0 {
            let (lane, name, family) = (Arc::clone(lane), name.to_owned(), lane.family);
            let client = client.clone();
            pending.spawn(async move { lane.run(client, move || look_up(&name, port, family)).await });
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

/// Waits for the first family that has addresses, and for AAAA records a little longer.
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
            // The limit is the more useful reason.
            Err(error) if failure.kind() == ErrorKind::TimedOut => drop(error),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The addresses of a host, for programs without a runtime. Waits for both families, but for the second one no longer than
/// `max_wait` after the first.
///
/// # Errors
/// As [`Resolver::addresses`], and if the machine has no threads for it.
pub fn addresses_blocking(name: &str, port: u16, max_wait: Duration) -> io::Result<Vec<SocketAddr>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let mut addresses = Resolver::new(Duration::MAX).addresses(None, name, port).await?;
        let later = timeout(max_wait, addresses.later()).await.unwrap_or_default();
        addresses.ready.extend(later);
        Ok(addresses.ready)
    });
    // A thread that waits for a name server is not waited for.
    runtime.shutdown_background();
    found
}

impl Lane {
    fn new(family: Family, max_lookups: usize, max_per_client: usize, max_wait: Duration) -> Self {
        let slots = Arc::new(Semaphore::new(max_lookups));
        Self { family, slots, slots_of: Mutex::default(), max_per_client, max_wait }
    }

    /// The slots of a client.
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

    /// Runs a look-up in a thread when there is a slot for it.
    async fn run(
        &self,
        client: Option<Client>,
        look_up: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> io::Result<Vec<SocketAddr>> {
        let full = |names: String| {
            let message = format!("{names} are being looked up already: the name servers are slow");
            io::Error::new(ErrorKind::TimedOut, message)
        };
        let end = Instant::now().checked_add(self.max_wait);
        let acquire = async |slots: Arc<Semaphore>| match end {
            Some(end) => timeout_at(end, slots.acquire_owned()).await.ok()?.ok(),
            None => slots.acquire_owned().await.ok(),
        };
        let of_client = match client {
            Some(client) => {
                let slot = acquire(self.slots_of(&client)).await;
                Some(slot.ok_or_else(|| full(format!("{} names of {client}", self.max_per_client)))?)
            }
            None => None,
        };
        let slot = acquire(Arc::clone(&self.slots)).await;
        let slot = slot.ok_or_else(|| full(format!("{MAX_LOOKUPS} names")))?;
        // The slots are in use until the thread is free, even if the client has gone before.
        let looking = tokio::task::spawn_blocking(move || {
            let found = look_up();
            drop((slot, of_client));
            found
        });
        looking.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn lane(max_lookups: usize, max_per_client: usize) -> Arc<Lane> {
        Arc::new(Lane::new(Family::V4, max_lookups, max_per_client, Duration::from_millis(50)))
    }

    /// A look-up that ends when the sender of the channel is dropped.
    fn silent(
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
        let lane = lane(8, 2);
        let [one, other] =
            ["192.0.2.1", "192.0.2.2"].map(|client| Client::new(None, client.parse().unwrap()));
        let (answer, answered) = channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        for _ in 0..2 {
            assert!(
                timeout(Duration::from_millis(20), lane.run(Some(one.clone()), silent(&answered)))
                    .await
                    .is_err()
            );
        }
        let busy = lane.run(Some(one.clone()), || Ok(Vec::new())).await.unwrap_err();
        assert!(busy.kind() == ErrorKind::TimedOut && busy.to_string().starts_with("2 names of 192.0.2.1 "));
        assert!(lane.run(Some(other.clone()), || Ok(Vec::new())).await.is_ok());
        drop(answer);
        assert!(lane.run(Some(one.clone()), || Ok(Vec::new())).await.is_ok());
        assert!(lane.run(Some(other.clone()), || Ok(Vec::new())).await.is_ok());
        // Clients without a look-up are forgotten when another one comes.
        for _ in 0..1000 {
            drop(lane.slots_of(&other));
            if lane.slots_of.lock().unwrap().len() == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("clients without a look-up are remembered");
    }

    #[test]
    fn user_counts_as_one_client_at_all_addresses() {
        let lane = lane(8, 2);
        let client = |user: Option<&[u8]>, address: &str| {
            Client::new(user.map(Vec::from), address.parse().expect("an address"))
        };
        let slots = lane.slots_of(&client(Some(b"alice"), "192.0.2.1"));
        assert!(Arc::ptr_eq(&slots, &lane.slots_of(&client(Some(b"alice"), "2001:db8::1"))));
        assert!(!Arc::ptr_eq(&slots, &lane.slots_of(&client(Some(b"bob"), "192.0.2.1"))));
        assert!(!Arc::ptr_eq(&slots, &lane.slots_of(&client(None, "192.0.2.1"))));
    }

    #[tokio::test]
    async fn slow_name_servers_take_limited_threads() {
        let lane = lane(2, 2);
        let (answer, answered) = channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        for _ in 0..2 {
            // The caller goes; the thread still waits.
            assert!(timeout(Duration::from_millis(20), lane.run(None, silent(&answered))).await.is_err());
        }
        let busy = lane.run(None, || Ok(Vec::new())).await.unwrap_err();
        assert!(busy.kind() == ErrorKind::TimedOut && busy.to_string().contains("name servers are slow"));
        assert!(tokio::task::spawn_blocking(|| true).await.unwrap());
        drop(answer);
        let resolver = Resolver::new(Duration::from_secs(10));
        assert!(resolver.addresses(None, "127.0.0.1", 80).await.is_ok());
        let none = resolver.addresses(None, "no-such-host.invalid", 80).await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::HostUnreachable);
    }

    /// One family answers, the other one keeps silent, or answers later.
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
