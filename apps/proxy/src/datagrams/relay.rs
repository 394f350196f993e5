//! Relays datagrams between two sides.

use super::side::Side;
use crate::relay::{Carried, wait_until_idle};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Relays datagrams until one side ends.
///
/// # Errors
/// The reason: a side has ended or failed, or no datagram was relayed for `idle_timeout`.
pub async fn relay_datagrams(
    near: &mut impl Side,
    far: &mut impl Side,
    carried: &Carried,
    idle_timeout: Duration,
) -> io::Error {
    // Empty datagrams count, too, so that they keep the association open.
    let datagrams = AtomicU64::new(0);
    let exchange = async {
        loop {
            tokio::select! {
                up = near.receive() => {
                    let up = up?;
                    datagrams.fetch_add(1, Ordering::Relaxed);
                    carried.up.fetch_add(up.payload.len() as u64, Ordering::Relaxed);
                    far.send(up);
                }
                down = far.receive() => {
                    let down = down?;
                    datagrams.fetch_add(1, Ordering::Relaxed);
                    carried.down.fetch_add(down.payload.len() as u64, Ordering::Relaxed);
                    near.send(down);
                }
            }
        }
    };
    tokio::select! {
        ended = exchange => { let ended: Result<core::convert::Infallible, io::Error> = ended; ended.unwrap_err() }
        () = wait_until_idle(|| datagrams.load(Ordering::Relaxed), idle_timeout) => ErrorKind::TimedOut.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagrams::Datagram;
    use crate::socks::wire::Target;
    use tokio::time::{Instant, sleep, timeout};

    /// A side from which an empty datagram comes each 30 s, `left` times.
    struct Pulse {
        left: u32,
    }

    impl Side for Pulse {
        async fn receive(&mut self) -> io::Result<Datagram> {
            if self.left == 0 {
                return std::future::pending().await;
            }
            sleep(Duration::from_secs(30)).await;
            self.left -= 1;
            let server = Target::Address(([192, 0, 2, 1], 9).into());
            Ok(Datagram { server, payload: Vec::new() })
        }

        fn send(&mut self, _: Datagram) {}
    }

    #[tokio::test(start_paused = true)]
    async fn empty_datagrams_keep_an_association_open() {
        let (mut near, mut far, begin) = (Pulse { left: 10 }, Pulse { left: 0 }, Instant::now());
        let carried = Carried::default();
        let relay = relay_datagrams(&mut near, &mut far, &carried, Duration::from_secs(60));
        let reason = timeout(Duration::from_secs(1000), relay).await.expect("the relay ends");
        assert_eq!(reason.kind(), ErrorKind::TimedOut);
        assert!(begin.elapsed() >= Duration::from_secs(360), "{:?}", begin.elapsed());
    }
}
