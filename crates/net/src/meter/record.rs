//! Records of both ends of a flow.

use anabranch_base::time::Time;
use anabranch_scenario::measure::{Deliveries, Histogram};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// State of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The flow has not begun, or waits for the other end.
    Opening,
    /// Connected.
    Open,
    /// All data was sent and has arrived.
    Closed,
    /// The other end reset the connection.
    Reset,
    /// The other end did not answer.
    TimedOut,
    /// No route.
    Unreachable,
    /// There is no listener.
    Refused,
    /// Another error of the socket.
    Aborted,
}

impl State {
    /// Name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::TimedOut => "timed-out",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Aborted => "aborted",
        }
    }
}

/// The state of a flow after an error of its socket.
pub fn state_of(error: Errno) -> State {
    match error {
        Errno::CONNRESET | Errno::PIPE => State::Reset,
        Errno::TIMEDOUT => State::TimedOut,
        Errno::NETUNREACH | Errno::HOSTUNREACH => State::Unreachable,
        Errno::CONNREFUSED => State::Refused,
        _ => State::Aborted,
    }
}

/// Record of one direction of a flow's data, from both ends.
#[derive(Clone, Debug)]
pub struct TransferTally {
    /// State of the connection.
    pub state: State,
    /// Bytes of a stream that the sender's socket accepted, or of datagrams that the application wrote.
    pub written: u64,
    /// Bytes that the receiver read.
    pub delivered: u64,
    /// Bytes that the receiver read after the warm-up.
    pub delivered_measured: u64,
    /// Datagrams sent, before and after the end of the warm-up.
    pub datagrams: u64,
    /// Bytes written after the warm-up.
    pub written_measured: u64,
    /// Delays from writing to reading, after the warm-up: of each byte of a stream, of each datagram.
    pub delays: Histogram,
    /// Reads of the receiver over time, in a run with events.
    pub over_time: Option<Deliveries>,
    /// Time at which the last byte arrived.
    pub completed: Option<Time>,
    /// The sender has closed.
    pub finished_writing: bool,
    /// A sentence about received data that differs from sent data, or about a failed socket.
    pub fault: Option<String>,
    /// Data of a stream that was written and not read: end offset, and the time at which the application had the data
    /// ready.
    ages: VecDeque<(u64, Time)>,
}

/// The tally of one direction of a flow's data, shared by both ends.
#[derive(Debug)]
pub struct Record {
    warmup: Time,
    tally: Mutex<TransferTally>,
}

impl Record {
    /// The record of a run whose measured part begins at `warmup`, with or without events.
    pub fn new(warmup: Time, over_time: Option<Deliveries>) -> Self {
        let tally = TransferTally {
            state: State::Opening,
            written: 0,
            delivered: 0,
            delivered_measured: 0,
            datagrams: 0,
            written_measured: 0,
            delays: Histogram::new(),
            over_time,
            completed: None,
            finished_writing: false,
            fault: None,
            ages: VecDeque::new(),
        };
        Self { warmup, tally: Mutex::new(tally) }
    }

    /// The counters, for uses that the methods below do not cover.
    pub fn tally(&self) -> MutexGuard<'_, TransferTally> {
        // The lock may be poisoned: the thread that panicked ends the run anyway.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the sender's socket accepted `len` bytes of a stream that the application had ready at `born`.
    pub fn wrote(&self, now: Time, len: u64, born: Time) {
        let warm = now >= self.warmup;
        let mut tally = self.tally();
        tally.written += len;
        tally.written_measured += if warm { len } else { 0 };
        let end = tally.written;
        match tally.ages.back_mut() {
            Some((last, when)) if *when == born => *last = end,
            _ => tally.ages.push_back((end, born)),
        }
    }

    /// Records that the application wrote a datagram. `taken` is false if the datagram was lost at once, for example
    /// while an interface is down.
    pub fn wrote_datagram(&self, now: Time, len: u64, taken: bool) {
        let warm = now >= self.warmup;
        let mut tally = self.tally();
        tally.written += len;
        if !taken {
            return;
        }
        tally.datagrams += 1;
        tally.written_measured += if warm { len } else { 0 };
    }

    /// Records that the receiver read the next `len` bytes of the stream.
    pub fn read(&self, now: Time, len: u64) {
        let warm = now >= self.warmup;
        let mut guard = self.tally();
        let tally = &mut *guard;
        if let Some(deliveries) = &mut tally.over_time {
            deliveries.add(now, len);
        }
        let end = tally.delivered + len;
        while tally.delivered < end {
            // The read may be recorded before the write.
            let (upto, born) = tally.ages.front().map_or((end, now), |&(upto, born)| (upto.min(end), born));
            let bytes = upto - tally.delivered;
            if warm {
                tally.delays.add(now.since(born), bytes);
                tally.delivered_measured += bytes;
            }
            tally.delivered = upto;
            if tally.ages.front().is_some_and(|&(all, _)| all <= upto) {
                tally.ages.pop_front();
            }
        }
    }

    /// Records that the receiver read a datagram that the application had ready at `born`.
    pub fn read_datagram(&self, now: Time, len: u64, born: Time) {
        let warm = now >= self.warmup;
        let mut tally = self.tally();
        tally.delivered += len;
        if let Some(deliveries) = &mut tally.over_time {
            deliveries.add(now, len);
        }
        if warm {
            tally.delays.add(now.since(born), 1);
            tally.delivered_measured += len;
        }
    }

    /// Sets the state of the flow.
    pub fn set_state(&self, state: State) {
        self.tally().state = state;
    }

    /// Records an error; only the first is kept.
    pub fn record_fault(&self, sentence: String) {
        self.tally().fault.get_or_insert(sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::time::Duration;

    fn ms(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn bytes_have_delays_and_count_after_the_warm_up() {
        let record = Record::new(ms(100), None);
        record.wrote(ms(0), 50, ms(0));
        record.wrote(ms(90), 100, ms(90));
        record.read(ms(95), 60);
        record.read(ms(110), 90);
        let tally = record.tally();
        assert_eq!((tally.written, tally.delivered, tally.delivered_measured), (150, 150, 90));
        assert!((tally.delays.mean_s().unwrap() - 0.02).abs() < 1e-12);
        assert!(tally.ages.is_empty());
    }

    #[test]
    fn datagram_lost_by_the_kernel_is_not_sent() {
        let record = Record::new(ms(0), None);
        record.wrote_datagram(ms(1), 400, true);
        record.wrote_datagram(ms(2), 300, false);
        let tally = record.tally();
        assert_eq!((tally.written, tally.written_measured, tally.datagrams), (700, 400, 1));
    }

    #[test]
    fn data_read_before_its_record_has_no_delay() {
        let record = Record::new(ms(0), None);
        record.read(ms(5), 10);
        record.wrote(ms(5), 10, ms(1));
        record.wrote(ms(6), 10, ms(6));
        record.read(ms(9), 10);
        let tally = record.tally();
        assert_eq!(tally.delivered, 20);
        assert!((tally.delays.mean_s().unwrap() - 0.0015).abs() < 1e-12);
    }
}
