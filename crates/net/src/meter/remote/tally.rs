//! Counters of an end of a flow during a test.

use super::result::{Delay, Read, Written};
use crate::meter::span::Span;
use anabranch_base::time::{Duration, Time};
use anabranch_scenario::measure::Histogram;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of delays that an end keeps for a flow, and for all flows of a test.
const MAX_FLOW_DELAYS: usize = 2_000_000;
const MAX_DELAYS: usize = 8_000_000;

/// The number of delays to keep of each of `flows` flows, at most.
pub const fn max_delays(flows: usize) -> usize {
    let share = MAX_DELAYS / if flows == 0 { 1 } else { flows };
    if share < MAX_FLOW_DELAYS { share } else { MAX_FLOW_DELAYS }
}

/// Counters of an end.
#[derive(Debug)]
pub struct EndTally {
    interval: Duration,
    warmup: Time,
    max_delays: usize,
    tolerates_abort: bool,
    counts: Mutex<Counts>,
}

/// The counts.
#[derive(Debug, Default)]
pub struct Counts {
    /// Written data of this end.
    pub written: Written,
    /// Read data of this end.
    pub read: Read,
    /// The writer of this end has closed.
    pub closed: bool,
    /// A sentence about an error, if there was one.
    pub fault: Option<String>,
    /// The reason why the connection broke, if that does not end the test.
    pub aborted: Option<String>,
    delays: Histogram,
}

impl EndTally {
    /// The counters of an end of a flow in a test with this span and interval, which keep at most `max_delays`
    /// delays.
    pub fn new(span: &Span, interval: Duration, max_delays: usize) -> Self {
        Self { interval, warmup: span.warmup, max_delays, tolerates_abort: false, counts: Mutex::default() }
    }

    /// True if the end of the connection does not end the test.
    pub const fn tolerating_abort(mut self, tolerates_abort: bool) -> Self {
        self.tolerates_abort = tolerates_abort;
        self
    }

    /// The counts.
    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        // The lock may be poisoned: the thread that panicked ends the test anyway.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the interval that contains a time.
    pub fn interval_index(&self, now: Time) -> usize {
        (now.as_nanos() / self.interval.as_nanos().max(1)) as usize
    }

    /// Records that the socket accepted `bytes` bytes.
    pub fn wrote(&self, now: Time, bytes: u64) {
        let written = &mut self.counts().written;
        written.bytes += bytes;
        *slot(&mut written.intervals, self.interval_index(now)) += bytes;
    }

    /// Records that `bytes` bytes have been read.
    pub fn read(&self, now: Time, bytes: u64) {
        let read = &mut self.counts().read;
        read.bytes += bytes;
        read.measured_bytes += if now >= self.warmup { bytes } else { 0 };
        *slot(&mut read.intervals, self.interval_index(now)) += bytes;
    }

    /// Records the arrival of a datagram with this number: all datagrams with lower numbers are due, too.
    pub fn due(&self, now: Time, number: u64) {
        let read = &mut self.counts().read;
        read.reordered += u64::from(number < read.due);
        let due = read.due.max(number + 1);
        read.measured_due += if now >= self.warmup { due - read.due } else { 0 };
        read.due = due;
    }

    /// Records a completely read message; `born` is given if both ends share a clock.
    pub fn message(&self, now: Time, born: Option<Time>) {
        let mut guard = self.counts();
        let counts = &mut *guard;
        counts.read.messages += 1;
        counts.read.measured_messages += u64::from(now >= self.warmup);
        let Some(born) = born.filter(|_| now >= self.warmup) else { return };
        let age = now.since(born);
        counts.delays.add(age, 1);
        if counts.read.delays.len() < self.max_delays {
            counts.read.delays.push((now.as_secs_f64(), age.as_secs_f64()));
        }
    }

    /// Records an error; only the first is kept.
    pub fn record_fault(&self, sentence: String) {
        self.counts().fault.get_or_insert(sentence);
    }

    /// Records the end of the connection, which is an error unless the flow tolerates it.
    pub fn record_abort(&self, sentence: String) {
        if self.tolerates_abort {
            self.counts().aborted.get_or_insert(sentence);
        } else {
            self.record_fault(sentence);
        }
    }

    /// Written and read data, with statistics of delays, and the error if there is one.
    pub fn result(&self) -> (Written, Read, Option<String>) {
        let mut counts = self.counts();
        counts.read.delay_s = Delay::of(&counts.delays);
        (counts.written.clone(), core::mem::take(&mut counts.read), counts.fault.clone())
    }
}

/// The counter of an interval; new ones are zero.
fn slot(intervals: &mut Vec<u64>, place: usize) -> &mut u64 {
    if intervals.len() <= place {
        intervals.resize(place + 1, 0);
    }
    &mut intervals[place]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn bytes_count_per_interval_delays_after_warm_up() {
        let ms = |millis| Time::ZERO + Duration::from_millis(millis);
        let span = Span::new(Clock::new(), ms(100), ms(1000));
        let tally = EndTally::new(&span, Duration::from_millis(250), 10);
        tally.read(ms(50), 10);
        tally.message(ms(50), Some(ms(10)));
        tally.read(ms(600), 20);
        tally.message(ms(600), Some(ms(570)));
        tally.message(ms(700), None);
        tally.wrote(ms(999), 5);
        let (written, read, fault) = tally.result();
        assert_eq!(written.intervals, [0, 0, 0, 5]);
        assert_eq!(
            (read.intervals.as_slice(), read.bytes, read.measured_bytes),
            ([10, 0, 20].as_slice(), 30, 20)
        );
        assert_eq!((read.messages, read.measured_messages), (3, 2));
        assert_eq!(read.delays, [(0.6, 0.03)]);
        assert!((read.delay_s.unwrap().mean - 0.03).abs() < 1e-9);
        assert_eq!(fault, None);
    }

    #[test]
    fn tolerated_abort_is_no_fault() {
        let span = Span::new(Clock::new(), Time::ZERO, Time::MAX);
        for (tolerates, expected) in [(true, (None, Some("broken"))), (false, (Some("broken"), None))] {
            let tally = EndTally::new(&span, Duration::from_secs(1), 0).tolerating_abort(tolerates);
            tally.record_abort("broken".to_owned());
            let counts = tally.counts();
            assert_eq!((counts.fault.as_deref(), counts.aborted.as_deref()), expected);
        }
    }

    #[test]
    fn flows_share_the_kept_delays() {
        assert_eq!([0, 1, 4, 8, 128].map(max_delays), [2_000_000, 2_000_000, 2_000_000, 1_000_000, 62_500]);
    }

    #[test]
    fn sent_datagrams_are_counted_in_the_measured_span() {
        let ms = |millis| Time::ZERO + Duration::from_millis(millis);
        let tally = EndTally::new(&Span::new(Clock::new(), ms(100), ms(1000)), Duration::from_millis(250), 0);
        for (at, number) in [(10, 0), (50, 4), (150, 3), (200, 9)] {
            tally.due(ms(at), number);
        }
        let (_, read, _) = tally.result();
        assert_eq!((read.due, read.measured_due, read.reordered), (10, 5, 1));
    }
}
