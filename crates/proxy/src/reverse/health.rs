//! Which servers are there.

use crate::connect::attempt_in_order;
use crate::log;
use crate::stream::{Transport, end_well};
use core::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The servers of a reverse proxy, in the order of preference.
pub struct Servers {
    name: String,
    servers: Vec<(SocketAddr, AtomicBool)>,
}

impl Servers {
    /// All are taken to be there until they prove otherwise.
    pub fn new(name: String, addresses: &[SocketAddr]) -> Self {
        let servers = addresses.iter().map(|&address| (address, AtomicBool::new(true))).collect();
        Self { name, servers }
    }

    /// Those that are there, then the others: one may have come back.
    pub fn in_order(&self) -> Vec<SocketAddr> {
        let (up, down): (Vec<_>, Vec<_>) =
            self.servers.iter().partition(|(_, up)| up.load(Ordering::Relaxed));
        up.into_iter().chain(down).map(|(address, _)| *address).collect()
    }

    /// Connects to each now and then, for ever.
    pub async fn watch(&self, every: Duration, patience: Duration) {
        loop {
            for (address, up) in &self.servers {
                let tried = timeout(patience, attempt_in_order(vec![(*address, None)], Transport::Tcp)).await;
                let there = matches!(tried, Ok(Ok(_)));
                if let Ok(Ok(stream)) = tried {
                    end_well(stream);
                }
                if up.swap(there, Ordering::Relaxed) != there {
                    let news =
                        if there { "is there again" } else { "does not answer; others take its place" };
                    log::say(format_args!("{}: the server {address} {news}", self.name));
                }
            }
            sleep(every).await;
        }
    }
}
