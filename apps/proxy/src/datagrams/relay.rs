//! Relays datagrams between two sides.

use super::side::Side;
use crate::relay::{Carried, wait_until_idle};
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
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
    let exchange = async {
        loop {
            tokio::select! {
                up = near.receive() => {
                    let up = up?;
                    carried.up.fetch_add(up.payload.len() as u64, Ordering::Relaxed);
                    far.send(up);
                }
                down = far.receive() => {
                    let down = down?;
                    carried.down.fetch_add(down.payload.len() as u64, Ordering::Relaxed);
                    near.send(down);
                }
            }
        }
    };
    tokio::select! {
        ended = exchange => { let ended: Result<core::convert::Infallible, io::Error> = ended; ended.unwrap_err() }
        () = wait_until_idle(carried, idle_timeout) => ErrorKind::TimedOut.into(),
    }
}
