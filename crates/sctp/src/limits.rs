//! Messages with limited reliability (RFC 3758, RFC 7496), and the TSN up to which the peer was asked to skip abandoned
//! chunks. [`abandon`](crate::extensions::abandon) abandons messages and sends the FORWARD TSN.

use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{Reliability, Write};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A message with limited reliability.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub reliability: Reliability,
    /// End of the message's lifetime; never if the limit is of another kind.
    pub expires: Time,
    pub offset: u64,
    pub len: u64,
    pub stream: u16,
    pub unordered: bool,
    /// TSNs of the message's first and newest fragments, and the number of the message (SSN or MID).
    pub cut: Option<(u64, u64)>,
    pub number: u32,
}

/// Messages with a limit, by their position in the order of writing.
#[derive(Debug, Default)]
pub(super) struct Limits {
    messages: BTreeMap<u64, Limit>,
    /// Ends of lifetimes that have not been reached.
    expiries: BTreeSet<(Time, u64)>,
    /// Lost chunks whose limits have not been checked yet.
    lost: Vec<u64>,
}

impl Limits {
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Records a written message with number `serial`, its offset and the time.
    pub fn note_written(&mut self, serial: u64, (offset, now): (u64, Time), write: &Write) {
        let &Write { len, stream, unordered, reliability, .. } = write;
        let expires = match reliability {
            Reliability::Full => return,
            Reliability::Lifetime(lifetime) => now + lifetime,
            Reliability::Retransmissions(_) | Reliability::Priority(_) => Time::MAX,
        };
        if expires < Time::MAX {
            self.expiries.insert((expires, serial));
        }
        let limit = Limit { reliability, expires, offset, len, stream, unordered, cut: None, number: 0 };
        self.messages.insert(serial, limit);
    }

    /// Records that a fragment of a message got a TSN, and the message got its number.
    pub fn note_cut(&mut self, serial: u64, tsn: u64, number: u32) {
        if self.messages.is_empty() {
            return;
        }
        if let Some(limit) = self.messages.get_mut(&serial) {
            limit.cut = Some((limit.cut.map_or(tsn, |(first, _)| first), tsn));
            limit.number = number;
        }
    }

    /// Records that a chunk will be retransmitted.
    pub fn note_lost(&mut self, tsn: u64) {
        if !self.messages.is_empty() {
            self.lost.push(tsn);
        }
    }

    /// Chunks lost since the last call.
    pub fn take_lost(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.lost)
    }

    pub fn get(&self, serial: u64) -> Option<&Limit> {
        self.messages.get(&serial)
    }

    pub fn remove(&mut self, serial: u64) -> Option<Limit> {
        let limit = self.messages.remove(&serial)?;
        self.expiries.remove(&(limit.expires, serial));
        Some(limit)
    }

    /// Removes the messages before this one, which have left the send buffer.
    pub fn retire(&mut self, oldest: u64) {
        while let Some((&serial, _)) = self.messages.first_key_value().filter(|&(&serial, _)| serial < oldest)
        {
            self.remove(serial);
        }
    }

    /// The next message whose lifetime has ended by now; each is returned once.
    pub fn expired(&mut self, now: Time) -> Option<u64> {
        let &(due, serial) = self.expiries.first()?;
        (due <= now).then(|| {
            self.expiries.pop_first();
            serial
        })
    }

    /// End of the next lifetime.
    pub fn next_expiry(&self) -> Option<Time> {
        self.expiries.first().map(|&(due, _)| due)
    }

    /// Messages with a priority below `own`, the lowest priority first, then the oldest.
    pub fn below(&self, own: u32) -> Vec<u64> {
        let priority = |limit: &Limit| match limit.reliability {
            Reliability::Priority(number) if number > own => Some(number),
            _ => None,
        };
        let mut found: Vec<(u32, u64)> = self
            .messages
            .iter()
            .filter_map(|(&serial, limit)| priority(limit).map(|number| (u32::MAX - number, serial)))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, serial)| serial).collect()
    }
}

/// State of the FORWARD TSN (RFC 3758 §3.5).
#[derive(Debug)]
pub(super) struct Forwarding {
    /// True if the peer supports FORWARD TSN.
    pub enabled: bool,
    /// Advanced.Peer.Ack.Point + 1: all lower TSNs are acknowledged or abandoned.
    pub ahead: u64,
    /// TSN covered by the last FORWARD TSN, and its transmission time. The TSN may be lower than `ahead` if the chunk
    /// had no room.
    pub told: u64,
    pub covered: u64,
    pub told_at: Time,
    /// The lowest unacknowledged TSN; when it advances, the retransmission timer restarts.
    pub base: u64,
    /// True if a SACK has arrived since the last check whether a FORWARD TSN is needed.
    pub heard: bool,
    /// True if the FORWARD TSN must be retransmitted.
    pub again: bool,
    /// Time at which the FORWARD TSN is retransmitted if no answer arrives.
    pub due: Option<Time>,
    /// Index of the path on which it was last sent.
    pub at: usize,
    /// The last TSNs before resets of outgoing streams, if not acknowledged yet.
    resets: VecDeque<u64>,
}

impl Forwarding {
    pub const fn new(enabled: bool) -> Self {
        Self {
            enabled,
            ahead: 0,
            told: 0,
            covered: 0,
            told_at: Time::ZERO,
            base: 0,
            heard: false,
            again: false,
            due: None,
            at: 0,
            resets: VecDeque::new(),
        }
    }

    /// Records that outgoing streams are reset after this TSN, the last one assigned.
    pub fn reset_behind(&mut self, last: u64) {
        if self.enabled {
            self.resets.push_back(last);
        }
    }

    /// End (exclusive) of the TSNs that may be skipped while all below `base` is acknowledged. One FORWARD TSN must not
    /// contain both a message from before a reset and TSNs from after it. The peer could process it after the reset and
    /// apply it to the message that then has the same number. This message would be acknowledged but never read. RFC
    /// 3758 and RFC 6525 do not cover this case.
    pub fn end(&mut self, base: u64) -> u64 {
        while self.resets.front().is_some_and(|&last| last < base) {
            self.resets.pop_front();
        }
        self.resets.front().map_or(u64::MAX, |last| last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::time::Duration;

    #[test]
    fn lowest_priority_then_oldest_is_first() {
        let mut limits = Limits::default();
        for (serial, priority) in [(0, 3), (1, 9), (2, 9), (3, 1), (4, 4)] {
            let reliability = Reliability::Priority(priority);
            limits.note_written(serial, (0, Time::ZERO), &Write { reliability, ..Write::bytes(1) });
        }
        assert_eq!(limits.below(3), [1, 2, 4]);
        limits.remove(1);
        assert_eq!(limits.below(0), [2, 4, 0, 3]);
        limits.retire(3);
        assert_eq!(limits.below(0), [4, 3]);
    }

    #[test]
    fn each_lifetime_expires_once() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut limits = Limits::default();
        for (serial, life) in [(0, 50), (1, 20)] {
            let reliability = Reliability::Lifetime(Duration::from_millis(life));
            limits.note_written(serial, (0, at(5)), &Write { reliability, ..Write::bytes(1) });
        }
        limits.note_written(2, (0, at(5)), &Write::bytes(1));
        assert_eq!((limits.next_expiry(), limits.expired(at(24))), (Some(at(25)), None));
        assert_eq!(
            [limits.expired(at(60)), limits.expired(at(60)), limits.expired(at(60))],
            [Some(1), Some(0), None]
        );
    }
}
