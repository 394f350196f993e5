//! How much a host keeps and says, whatever it is sent.

use core::ops::RangeInclusive;
use anabranch_base::time::{Duration, Time};

/// Bounds of a host.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections of all kinds.
    pub connections: usize,
    /// Ended TCP connections that are remembered (TIME-WAIT); beyond, the oldest is forgotten.
    pub time_wait: usize,
    /// Answers a second to packets that belong to nobody: RST, ABORT and ICMP errors together (RFC 1812 §4.3.2.8,
    /// RFC 4443 §2.4 f).
    pub answers_per_second: u32,
    /// Pairs of addresses that are remembered because connections came about on them (Becke2014 §5.1.2.1); beyond, the one that
    /// was used least lately is forgotten.
    pub pairs: usize,
    /// Ports that are given out (RFC 6335 §6: the dynamic ports).
    pub ephemeral_ports: RangeInclusive<u16>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            time_wait: 16_384,
            answers_per_second: 1_000,
            pairs: 256,
            ephemeral_ports: 49_152..=65_535,
        }
    }
}

/// Bounds of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Connections whose handshake is complete and that the application has not accepted; with that many, new ones are
    /// not answered.
    pub complete: usize,
    /// Connections whose handshake is under way; with that many, TCP answers with SYN cookies. SCTP keeps nothing of a
    /// handshake.
    pub incomplete: usize,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { complete: 128, incomplete: 256 }
    }
}

/// A token bucket.
#[derive(Clone, Debug)]
pub struct RateLimit {
    interval: Duration,
    burst: Duration,
    /// When the bucket is full again.
    full_at: Time,
}

impl RateLimit {
    /// So many a second, and as many at once.
    pub fn per_second(count: u32) -> Self {
        Self::with_burst(count, count)
    }

    /// So many a second, and `burst` at once.
    pub fn with_burst(count: u32, burst: u32) -> Self {
        let interval = 1_000_000_000 / u64::from(count.max(1));
        let nanos = Duration::from_nanos;
        Self { interval: nanos(interval), burst: nanos(interval * u64::from(burst)), full_at: Time::ZERO }
    }

    /// Takes one, if there is one.
    pub fn allows(&mut self, now: Time) -> bool {
        let next = self.full_at.max(now) + self.interval;
        let allowed = next.since(now) <= self.burst;
        if allowed {
            self.full_at = next;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_allows_so_many_and_then_one_at_a_time() {
        let mut limit = RateLimit::per_second(10);
        assert_eq!((0..100).filter(|_| limit.allows(Time::ZERO)).count(), 10);
        let later = Time::ZERO + Duration::from_millis(250);
        assert_eq!((0..100).filter(|_| limit.allows(later)).count(), 2);
        let mut limit = RateLimit::with_burst(1_000, 3);
        assert_eq!((0..100).filter(|_| limit.allows(later)).count(), 3);
    }
}
