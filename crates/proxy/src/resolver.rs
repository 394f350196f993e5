//! Resolver become addresses. The resolver of the system holds a thread for as long as its name servers keep silent, so that no
//! more names than some are looked up at once: others wait, and what else needs a thread has one.

use super::network::Network;
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// Resolver that are looked up at once; the runtime has threads for twice as many.
const AT_ONCE: usize = 256;
/// Of them, those that one client has asked for: whose name servers are slow has others' names wait no longer.
const OF_ONE: usize = 32;

/// Looks names up.
pub struct Resolver {
    room: Arc<Semaphore>,
    /// The room of each client that has some.
    rooms: Mutex<BTreeMap<Network, Weak<Semaphore>>>,
    of_one: usize,
    patience: Duration,
}

impl Resolver {
    /// For who waits no longer than this for a connection: a name waits half of that for others, so that the cause is told.
    pub fn new(patience: Duration) -> Self {
        let room = Arc::new(Semaphore::new(AT_ONCE));
        Self { room, rooms: Mutex::default(), of_one: OF_ONE, patience: patience / 2 }
    }

    /// The addresses of a host, for a client; for nobody's sake, if that is not told.
    ///
    /// # Errors
    /// `HostUnreachable` if it has none; `TimedOut` if too many others are looked up.
    pub async fn addresses(
        &self,
        client: Option<IpAddr>,
        name: &str,
        port: u16,
    ) -> io::Result<Vec<SocketAddr>> {
        let name = name.to_owned();
        self.look_up(client, move || Ok((name.as_str(), port).to_socket_addrs()?.collect())).await
    }

    /// The room of a client's names.
    fn room_of(&self, client: IpAddr) -> Arc<Semaphore> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let client = Network::of_host(client);
        if let Some(room) = rooms.get(&client).and_then(Weak::upgrade) {
            return room;
        }
        rooms.retain(|_, room| room.strong_count() > 0);
        let room = Arc::new(Semaphore::new(self.of_one));
        rooms.insert(client, Arc::downgrade(&room));
        room
    }

    async fn look_up(
        &self,
        client: Option<IpAddr>,
        resolver: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> io::Result<Vec<SocketAddr>> {
        let full = |whose: String| {
            let said = format!("{whose} are being looked up already: the name servers are slow");
            io::Error::new(ErrorKind::TimedOut, said)
        };
        let end = Instant::now() + self.patience;
        let acquire = |room: Arc<Semaphore>| timeout_at(end, room.acquire_owned());
        let own = match client {
            Some(client) => {
                let own = acquire(self.room_of(client)).await;
                Some(own.map_err(|_| full(format!("{} names of {client}", self.of_one)))?)
            }
            None => None,
        };
        let room = acquire(Arc::clone(&self.room)).await.map_err(|_| full(format!("{AT_ONCE} names")))?;
        // Who asked may have gone before the thread is free again.
        let looking = tokio::task::spawn_blocking(move || {
            let found = resolver();
            drop((room, own));
            found
        });
        let unknown = |error| io::Error::new(ErrorKind::HostUnreachable, error);
        looking.await.map_err(io::Error::other)?.map_err(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use tokio::time::timeout;

    fn room_for(all: usize, of_one: usize) -> Resolver {
        let room = Arc::new(Semaphore::new(all));
        Resolver { room, rooms: Mutex::default(), of_one, patience: Duration::from_millis(50) }
    }

    #[tokio::test]
    async fn slow_names_of_one_client_hold_up_no_other() {
        let names = room_for(8, 2);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|client| Some(client.parse().unwrap()));
        let (answer, answered) = channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        for _ in 0..2 {
            let answered = Arc::clone(&answered);
            let silent = names.look_up(one, move || {
                let _ended = answered.lock().unwrap().recv();
                Ok(Vec::new())
            });
            assert!(timeout(Duration::from_millis(20), silent).await.is_err());
        }
        let busy = names.look_up(one, || Ok(Vec::new())).await.unwrap_err();
        assert!(busy.kind() == ErrorKind::TimedOut && busy.to_string().starts_with("2 names of 192.0.2.1 "));
        assert!(names.look_up(other, || Ok(Vec::new())).await.is_ok());
        drop(answer);
        assert!(names.look_up(one, || Ok(Vec::new())).await.is_ok());
        assert!(names.look_up(other, || Ok(Vec::new())).await.is_ok());
        // Nothing is kept of who has nothing under way, when somebody else asks.
        for _ in 0..1000 {
            drop(names.room_of(other.unwrap()));
            if names.rooms.lock().unwrap().len() == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it is remembered who has asked");
    }

    #[tokio::test]
    async fn slow_name_servers_take_no_more_threads_than_some() {
        let names = room_for(2, 2);
        let (answer, answered) = channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        for _ in 0..2 {
            let answered = Arc::clone(&answered);
            let silent = names.look_up(None, move || {
                let _ended = answered.lock().unwrap().recv();
                Ok(Vec::new())
            });
            // Who asked goes; the thread still waits.
            assert!(timeout(Duration::from_millis(20), silent).await.is_err());
        }
        let busy = names.look_up(None, || Ok(Vec::new())).await.unwrap_err();
        assert!(busy.kind() == ErrorKind::TimedOut && busy.to_string().contains("name servers are slow"));
        assert!(tokio::task::spawn_blocking(|| true).await.unwrap());
        drop(answer);
        assert!(names.addresses(None, "127.0.0.1", 80).await.is_ok());
        let none = names.addresses(None, "no-such-host.invalid", 80).await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::HostUnreachable);
    }
}
