//! Totals of each local address over all its subflows, including those of connections that have ended.

use super::kernel::Subflow;
use core::net::IpAddr;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Side of the peers of subflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Subflows with clients.
    Client,
    /// Subflows with servers or an upstream proxy.
    Server,
}

/// Totals of a local address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Carried {
    /// Sent and acknowledged bytes.
    pub sent_bytes: u64,
    /// Received bytes.
    pub received_bytes: u64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Smoothed round-trip time of the latest sample, µs.
    pub rtt_us: u32,
}

/// Traffic by local address and by side (towards clients or servers).
static UPLINKS: Mutex<BTreeMap<(IpAddr, Side), Carried>> = Mutex::new(BTreeMap::new());

fn lock() -> MutexGuard<'static, BTreeMap<(IpAddr, Side), Carried>> {
    UPLINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the increase of the subflows' counters since the previous sample.
pub fn count(side: Side, before: &[Subflow], now: &[Subflow]) {
    let mut uplinks = lock();
    for subflow in now {
        let same = |old: &&Subflow| (old.local, old.remote) == (subflow.local, subflow.remote);
        let old = before.iter().find(same);
        // If the ports are those of an earlier subflow, the counters of the new one start at zero.
        let since = |now: u64, before: Option<u64>| now.checked_sub(before.unwrap_or(0)).unwrap_or(now);
        let uplink = uplinks.entry((subflow.local.ip(), side)).or_default();
        uplink.sent_bytes += since(subflow.sent_bytes, old.map(|old| old.sent_bytes));
        uplink.received_bytes += since(subflow.received_bytes, old.map(|old| old.received_bytes));
        uplink.retransmitted += since(subflow.retransmitted.into(), old.map(|old| old.retransmitted.into()));
        uplink.rtt_us = subflow.rtt_us;
    }
}

/// Returns the totals of all addresses.
pub fn all() -> Vec<((IpAddr, Side), Carried)> {
    lock().iter().map(|(&key, &carried)| (key, carried)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_decrease_add_nothing() {
        let at = |sent_bytes, received_bytes| Subflow {
            local: "192.0.2.77:1".parse().unwrap(),
            remote: "192.0.2.78:2".parse().unwrap(),
            rtt_us: 5,
            sent_bytes,
            received_bytes,
            retransmitted: 1,
        };
        for (before, now) in
            [(None, at(10, 20)), (Some(at(10, 20)), at(15, 20)), (Some(at(15, 20)), at(3, 4))]
        {
            count(Side::Server, before.as_slice(), &[now]);
        }
        let found = all().into_iter().find(|((ip, _), _)| ip.to_string() == "192.0.2.77").unwrap().1;
        // The new subflow between the same ports has the same number of retransmitted segments, so its segment is not
        // counted.
        assert_eq!(found, Carried { sent_bytes: 18, received_bytes: 24, retransmitted: 1, rtt_us: 5 });
    }
}
