//! Totals of each address of this machine over its subflows, with those of connections that have ended.

use super::kernel::Subflow;
use core::net::IpAddr;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// With whom subflows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// With clients.
    Client,
    /// With servers, or another proxy.
    Server,
}

/// Totals of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Carried {
    /// Bytes that were sent and acknowledged.
    pub sent_bytes: u64,
    /// Bytes that were received.
    pub received_bytes: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// The smoothed round-trip time that was seen last, µs.
    pub rtt_us: u32,
}

static UPLINKS: Mutex<BTreeMap<(IpAddr, Side), Carried>> = Mutex::new(BTreeMap::new());

fn lock() -> MutexGuard<'static, BTreeMap<(IpAddr, Side), Carried>> {
    UPLINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts what subflows have carried since they were seen before.
pub fn count(side: Side, before: &[Subflow], now: &[Subflow]) {
    let mut uplinks = lock();
    for subflow in now {
        let same = |old: &&Subflow| (old.local, old.remote) == (subflow.local, subflow.remote);
        let old = before.iter().find(same);
        // A subflow that was made again between the same ports begins at zero.
        let since = |now: u64, before: Option<u64>| now.checked_sub(before.unwrap_or(0)).unwrap_or(now);
        let uplink = uplinks.entry((subflow.local.ip(), side)).or_default();
        uplink.sent_bytes += since(subflow.sent_bytes, old.map(|old| old.sent_bytes));
        uplink.received_bytes += since(subflow.received_bytes, old.map(|old| old.received_bytes));
        uplink.retransmitted += since(subflow.retransmitted.into(), old.map(|old| old.retransmitted.into()));
        uplink.rtt_us = subflow.rtt_us;
    }
}

/// All of them.
pub fn all() -> Vec<((IpAddr, Side), Carried)> {
    lock().iter().map(|(&key, &carried)| (key, carried)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_counts() {
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
        // A new subflow between the same ports: its retransmitted segment cannot be distinguished from that of the old one.
        assert_eq!(found, Carried { sent_bytes: 18, received_bytes: 24, retransmitted: 1, rtt_us: 5 });
    }
}
