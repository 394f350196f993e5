//! Which servers are there.

use crate::connect::attempt_in_order;
use crate::log;
use crate::stream::{Transport, end_well};
use core::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The servers of a reverse proxy, in the order of preference.
pub struct Servers(Vec<Arc<Server>>);

struct Server {
    /// What the proxy is called.
    name: String,
    address: SocketAddr,
    is_up: AtomicBool,
}

impl Servers {
    /// All are taken to be there until they prove otherwise.
    pub fn new(name: &str, addresses: &[SocketAddr]) -> Self {
        let server = |&address: &SocketAddr| {
            Arc::new(Server { name: name.to_owned(), address, is_up: AtomicBool::new(true) })
        };
        Self(addresses.iter().map(server).collect())
    }

    /// Those that are there, then the others: one may have come back.
    pub fn in_order(&self) -> Vec<SocketAddr> {
        let (up, down): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|server| server.is_up.load(Ordering::Relaxed));
        up.into_iter().chain(down).map(|server| server.address).collect()
    }

    /// Connects to each now and then, for ever; one that keeps silent holds up no other.
    pub async fn watch(&self, every: Duration, patience: Duration) {
        let mut watched: JoinSet<()> =
            self.0.iter().map(|server| Arc::clone(server).watch(every, patience)).collect();
        while watched.join_next().await.is_some() {}
    }
}

impl Server {
    async fn watch(self: Arc<Self>, every: Duration, patience: Duration) {
        loop {
            let attempt = attempt_in_order(vec![(self.address, None)], Transport::Tcp);
            let tried = timeout(patience, attempt).await;
            let there = matches!(tried, Ok(Ok(_)));
            if let Ok(Ok(stream)) = tried {
                end_well(stream);
            }
            if self.is_up.swap(there, Ordering::Relaxed) != there {
                let news = if there { "is there again" } else { "does not answer; others take its place" };
                log::say(format_args!("{}: the server {} {news}", self.name, self.address));
            }
            sleep(every).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first server's queue is full, so that it keeps silent.
    #[tokio::test]
    async fn a_silent_server_holds_up_no_other() {
        let silent = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        silent.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        silent.listen(0).unwrap();
        let silent_at = silent.local_addr().unwrap().as_socket().unwrap();
        let mut held = Vec::new();
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&silent_at, Duration::from_millis(100)) {
            held.push(stream);
        }
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let servers = Servers::new("web", &[silent_at, gone]);
        let watching = servers.watch(Duration::from_millis(10), Duration::from_secs(60));
        assert!(timeout(Duration::from_millis(500), watching).await.is_err());
        let up: Vec<_> = servers.0.iter().map(|server| server.is_up.load(Ordering::Relaxed)).collect();
        assert_eq!(up, [true, false]);
    }
}
