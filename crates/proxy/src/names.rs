//! Names become addresses. The resolver of the system holds a thread for as long as its name servers keep silent, so that no
//! more names than some are looked up at once: others wait, and what else needs a thread has one.

use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Names that are looked up at once; the runtime has threads for twice as many.
const AT_ONCE: usize = 256;

/// Looks names up.
pub struct Names {
    room: Arc<Semaphore>,
    patience: Duration,
}

impl Names {
    /// For who waits no longer than this for a connection: a name waits half of that for others, so that the cause is told.
    pub fn new(patience: Duration) -> Self {
        Self { room: Arc::new(Semaphore::new(AT_ONCE)), patience: patience / 2 }
    }

    /// The addresses of a host.
    ///
    /// # Errors
    /// `HostUnreachable` if it has none; `TimedOut` if too many others are looked up.
    pub async fn addresses(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let name = name.to_owned();
        self.look_up(move || Ok((name.as_str(), port).to_socket_addrs()?.collect())).await
    }

    async fn look_up(
        &self,
        resolver: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> io::Result<Vec<SocketAddr>> {
        let room = timeout(self.patience, Arc::clone(&self.room).acquire_owned()).await.map_err(|_| {
            let said = format!("{AT_ONCE} names are being looked up already: the name servers are slow");
            io::Error::new(ErrorKind::TimedOut, said)
        })?;
        // Who asked may have gone before the thread is free again.
        let looking = tokio::task::spawn_blocking(move || {
            let found = resolver();
            drop(room);
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

    #[tokio::test]
    async fn slow_name_servers_take_no_more_threads_than_some() {
        let names = Names { room: Arc::new(Semaphore::new(2)), patience: Duration::from_millis(50) };
        let (answer, answered) = channel::<()>();
        let answered = Arc::new(std::sync::Mutex::new(answered));
        for _ in 0..2 {
            let answered = Arc::clone(&answered);
            let silent = names.look_up(move || {
                let _ended = answered.lock().unwrap().recv();
                Ok(Vec::new())
            });
            // Who asked goes; the thread still waits.
            assert!(timeout(Duration::from_millis(20), silent).await.is_err());
        }
        let busy = names.look_up(|| Ok(Vec::new())).await.unwrap_err();
        assert!(busy.kind() == ErrorKind::TimedOut && busy.to_string().contains("name servers are slow"));
        assert!(tokio::task::spawn_blocking(|| true).await.unwrap());
        drop(answer);
        assert!(names.addresses("127.0.0.1", 80).await.is_ok());
        let none = names.addresses("no-such-host.invalid", 80).await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::HostUnreachable);
    }
}
