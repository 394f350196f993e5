//! Trace-driven service, as in Mahimahi's link shell (R. Netravali et al.: Mahimahi: Accurate
//! Record-and-Replay for HTTP, USENIX ATC 2015): a trace lists times, in milliseconds, at which up to 1500
//! bytes may leave; the trace is repeated.

use anabranch_base::time::{Duration, Time};
use std::sync::Arc;

/// Bytes that one opportunity can carry.
pub const OPPORTUNITY_BYTES: u64 = 1500;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// The delivery opportunities of a trace, used in order.
///
/// A packet may take several opportunities and several packets may share one. An opportunity without data to
/// send is lost, and so is the unused rest of one after its time.
#[derive(Clone, Debug)]
pub struct Opportunities {
    moments: Arc<[u64]>,
    /// Length of the trace, milliseconds.
    period: u64,
    /// Offset within the trace at which the run begins.
    offset: Duration,
    /// Number of the first opportunity of the run.
    first: u64,
    /// Number of the current opportunity, counted over all rounds of the trace.
    current: u64,
    /// Bytes that the current opportunity can still carry.
    left: u64,
    /// Bytes of all packets sent.
    used: u64,
    last: LastPacket,
}

/// The last packet, of which a part may not have left yet.
#[derive(Clone, Copy, Debug, Default)]
struct LastPacket {
    /// The packet's first opportunity, and the bytes of this opportunity that the packet used.
    first: (u64, u64),
    len: u64,
}

impl Opportunities {
    /// A trace of ascending times in milliseconds; the last of them is the period after which the trace repeats. The
    /// run begins at the time `offset` of the repeated trace.
    ///
    /// # Panics
    ///
    /// If the trace is empty or its period is zero; the scenario's parser rejects both.
    pub fn new(moments: Arc<[u64]>, offset: Duration) -> Self {
        let period = *moments.last().expect("a trace has at least one opportunity");
        assert!(period > 0, "a trace lasts at least a millisecond");
        let mut trace = Self {
            moments,
            period,
            offset: Duration::from_nanos(offset.as_nanos() % (period * NANOS_PER_MILLI)),
            first: 0,
            current: 0,
            left: OPPORTUNITY_BYTES,
            used: 0,
            last: LastPacket::default(),
        };
        trace.first = trace.first_from(Time::ZERO);
        trace.current = trace.first;
        trace
    }

    /// Sends `len` bytes from `at` on; returns the departure of the last byte.
    pub fn send(&mut self, at: Time, len: u32) -> Time {
        if self.moment(self.current) < at {
            self.current = self.first_from(at);
            self.left = OPPORTUNITY_BYTES;
        }
        let mut missing = u64::from(len);
        self.used += missing;
        self.last = LastPacket { first: (self.current, missing.min(self.left)), len: missing };
        while missing > self.left {
            missing -= self.left;
            self.current += 1;
            self.left = OPPORTUNITY_BYTES;
        }
        self.left -= missing;
        let end = self.moment(self.current);
        if self.left == 0 {
            self.current += 1;
            self.left = OPPORTUNITY_BYTES;
        }
        end
    }

    /// Stops the service: the part of the last packet that has not left by `now` is lost.
    pub fn stop(&mut self, now: Time) {
        let unsent = self.unsent(now);
        self.used -= unsent;
        self.last.len -= unsent;
    }

    /// Bytes that have been sent by `now`, inclusive.
    pub fn used_until(&self, now: Time) -> u64 {
        self.used - self.unsent(now)
    }

    /// Bytes of the last packet that leave after `now`.
    fn unsent(&self, now: Time) -> u64 {
        let LastPacket { first: (first, share), len } = self.last;
        let passed = self.first_from(now.just_after()).saturating_sub(first);
        let sent = if passed == 0 { 0 } else { share + (passed - 1) * OPPORTUNITY_BYTES };
        len.saturating_sub(sent)
    }

    /// Bytes that could have been sent by `now`, inclusive.
    pub fn offered_until(&self, now: Time) -> u64 {
        (self.first_from(now.just_after()) - self.first) * OPPORTUNITY_BYTES
    }

    /// Time of opportunity `number`.
    fn moment(&self, number: u64) -> Time {
        let per_round = self.moments.len() as u64;
        let millis = number / per_round * self.period + self.moments[(number % per_round) as usize];
        Time::from_nanos(millis.saturating_mul(NANOS_PER_MILLI).saturating_sub(self.offset.as_nanos()))
    }

    /// The first opportunity that is not before `at`.
    fn first_from(&self, at: Time) -> u64 {
        let millis = (at + self.offset).as_nanos().div_ceil(NANOS_PER_MILLI);
        // The end of a round belongs to that round, not to the next one.
        let round = millis.saturating_sub(1) / self.period;
        let within = millis - round * self.period;
        round * self.moments.len() as u64 + self.moments.partition_point(|&moment| moment < within) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Time {
        Time::from_nanos(millis * NANOS_PER_MILLI)
    }

    #[test]
    fn packets_share_and_span_opportunities() {
        let mut trace = Opportunities::new(Arc::from([2, 5, 5, 9].as_slice()), Duration::ZERO);
        // 1000 of 1500 bytes at 2 ms; the next 1000 take the rest of it and 500 at 5 ms.
        assert_eq!(trace.send(ms(0), 1000), ms(2));
        assert_eq!(trace.send(ms(2), 1000), ms(5));
        // The current opportunity at 5 ms has 1000 bytes left, and another one at 5 ms has 1500: 2500 bytes fit exactly.
        assert_eq!(trace.send(ms(5), 2500), ms(5));
        assert_eq!(trace.send(ms(5), 40), ms(9));
        // The second round starts at 9 ms: 11, 14, 14, 18; the rest of 9 ms is lost.
        assert_eq!(trace.send(ms(10), 1500), ms(11));
        assert_eq!(trace.send(ms(15), 1501), ms(20));
    }

    #[test]
    fn unused_opportunities_are_lost() {
        let mut trace = Opportunities::new(Arc::from([1, 2, 3].as_slice()), Duration::ZERO);
        assert_eq!(trace.send(ms(100), 1500), ms(100));
        assert_eq!(trace.send(Time::from_nanos(100_000_001), 1500), ms(101));
        assert_eq!(trace.offered_until(ms(3)), 3 * OPPORTUNITY_BYTES);
        assert_eq!(trace.offered_until(ms(4)), 4 * OPPORTUNITY_BYTES);
        assert_eq!(trace.offered_until(ms(0)), 0);
    }

    #[test]
    fn used_bytes_do_not_exceed_offered_bytes() {
        let mut trace = Opportunities::new(Arc::from([10].as_slice()), Duration::ZERO);
        // Three opportunities, the first of them at 10 ms.
        assert_eq!(trace.send(ms(5), 4000), ms(30));
        let used = [5, 10, 29, 30, 40].map(|at| trace.used_until(ms(at)));
        assert_eq!(used, [0, 1500, 3000, 4000, 4000]);
        assert_eq!(trace.send(ms(30), 600), ms(40));
        assert_eq!([30, 39, 40].map(|at| trace.used_until(ms(at))), [4500, 4500, 4600]);
        // The link goes down before the rest has left.
        trace.stop(ms(35));
        assert_eq!([35, 50].map(|at| trace.used_until(ms(at))), [4500, 4500]);
    }

    #[test]
    fn run_may_begin_within_the_trace() {
        let mut trace = Opportunities::new(Arc::from([2, 5, 9].as_slice()), Duration::from_micros(4500));
        // 5 and 9 ms of the first round, 11 ms of the second.
        let moments = [0, 1, 5].map(|millis| trace.send(ms(millis), 1500));
        assert_eq!(moments.map(Time::as_nanos), [500_000, 4_500_000, 6_500_000]);
        assert_eq!(trace.offered_until(Time::from_nanos(499_999)), 0);
        assert_eq!(trace.offered_until(ms(7)), 3 * OPPORTUNITY_BYTES);
        // After a whole number of rounds, the trace is as at the beginning.
        let mut trace = Opportunities::new(Arc::from([2, 5, 9].as_slice()), Duration::from_millis(18));
        assert_eq!([trace.send(ms(0), 1500), trace.send(ms(0), 1500)], [ms(2), ms(5)]);
        assert_eq!(trace.offered_until(ms(5)), 2 * OPPORTUNITY_BYTES);
    }

    #[test]
    fn trace_begins_at_zero() {
        let mut trace = Opportunities::new(Arc::from([0, 4].as_slice()), Duration::ZERO);
        assert_eq!(trace.send(ms(0), 1500), ms(0));
        // The opportunity at 4 ms is both the end of the first round and the start of the second.
        assert_eq!(trace.send(ms(0), 1500), ms(4));
        assert_eq!(trace.send(ms(4), 1500), ms(4));
        assert_eq!(trace.send(ms(4), 1500), ms(8));
        assert_eq!(Opportunities::new(Arc::from([0, 4].as_slice()), Duration::ZERO).send(ms(4), 3000), ms(4));
    }
}
