//! Service with a rate that follows a recording.
//!
//! The service is exact: its state is a position in units of 10⁻⁹ bit, the product of a rate in bit/s and a time in
//! nanoseconds. So consecutive packets accumulate no rounding errors, and a rate of zero suspends a packet in the
//! middle of its transmission.

use crate::series::Series;
use anabranch_base::time::{Duration, Time};
use std::sync::Arc;

/// Units of a position for each byte.
const UNITS_PER_BYTE: u128 = 8_000_000_000;

/// A segment of the recording.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Start of the segment within the period, nanoseconds.
    begin: u64,
    /// Capacity units from the start of the period to the start of the segment.
    before: u128,
    /// Bits per second.
    rate: u64,
}

/// The rates of a recording, used in order.
#[derive(Clone, Debug)]
pub struct RecordedRates {
    segments: Arc<[Segment]>,
    /// Period of the recording, nanoseconds.
    period: u64,
    /// Units of a period.
    per_round: u128,
    /// Offset within the recording at which the run begins.
    offset: Duration,
    /// Position at the start of the run.
    first: u128,
    /// Position at the end of the last packet.
    sent: u128,
    /// The end of the last packet, rounded up.
    end: Time,
    /// Bytes of all packets sent.
    used: u64,
    /// Length of the last packet, bytes.
    last_len: u64,
}

impl RecordedRates {
    /// Rates in bit/s, at least one of them above zero; the run begins `offset` into the recording, or into a later
    /// round.
    ///
    /// # Panics
    ///
    /// If all rates are zero; the scenario's parser rejects such a file.
    pub fn new(series: &Series, offset: Duration) -> Self {
        let mut segments: Vec<Segment> = Vec::with_capacity(series.points().len() - 1);
        let mut before = 0;
        for pair in series.points().windows(2) {
            let ((begin, rate), (end, _)) = (pair[0], pair[1]);
            let (begin, rate) = (begin.as_nanos(), rate.round() as u64);
            segments.push(Segment { begin, before, rate });
            before += u128::from(rate) * u128::from(end.as_nanos() - begin);
        }
        assert!(before > 0, "a recording has a rate above zero");
        let period = series.period().as_nanos();
        let mut rates = Self {
            segments: segments.into(),
            period,
            per_round: before,
            offset: Duration::from_nanos(offset.as_nanos() % period),
            first: 0,
            sent: 0,
            end: Time::ZERO,
            used: 0,
            last_len: 0,
        };
        rates.first = rates.position(Time::ZERO);
        rates.sent = rates.first;
        rates
    }

    /// Sends `len` bytes from `at` on; returns when the last bit leaves.
    pub fn send(&mut self, at: Time, len: u32) -> Time {
        // A packet that follows another one begins at its exact end.
        if at != self.end {
            self.sent = self.position(at);
        }
        self.sent += u128::from(len) * UNITS_PER_BYTE;
        self.used += u64::from(len);
        self.last_len = len.into();
        self.end = self.moment(self.sent);
        self.end
    }

    /// Stops the service: the part of the last packet that has not left by `now` is lost.
    pub fn stop(&mut self, now: Time) {
        let unsent = self.unsent(now);
        self.used -= unsent;
        self.last_len -= unsent;
        self.sent = self.position(now);
        self.end = now;
    }

    /// Bytes that have been sent by `now`, inclusive.
    pub fn used_until(&self, now: Time) -> u64 {
        self.used - self.unsent(now)
    }

    /// Bytes that could have been sent by `now`, inclusive.
    pub fn offered_until(&self, now: Time) -> u64 {
        ((self.position(now) - self.first) / UNITS_PER_BYTE) as u64
    }

    /// Bytes of the last packet that leave after `now`.
    fn unsent(&self, now: Time) -> u64 {
        let left = self.sent.saturating_sub(self.position(now));
        (left.div_ceil(UNITS_PER_BYTE) as u64).min(self.last_len)
    }

    /// The position at a time.
    fn position(&self, at: Time) -> u128 {
        let nanos = (at + self.offset).as_nanos();
        let (round, within) = (nanos / self.period, nanos % self.period);
        let index = self.segments.partition_point(|segment| segment.begin <= within) - 1;
        let Segment { begin, before, rate } = self.segments[index];
        u128::from(round) * self.per_round + before + u128::from(rate) * u128::from(within - begin)
    }

    /// The first time at which the units since the start of the recording reach `position`, which is above zero.
    fn moment(&self, position: u128) -> Time {
        let round = (position - 1) / self.per_round;
        let rest = position - round * self.per_round;
        // In this segment the position increases, so its rate is above zero.
        let index = self.segments.partition_point(|segment| segment.before < rest) - 1;
        let Segment { begin, before, rate } = self.segments[index];
        let nanos = (rest - before).div_ceil(u128::from(rate)) + u128::from(begin);
        let nanos = u128::from(self.period) * round + nanos;
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Time::from_nanos(nanos.saturating_sub(self.offset.as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// Rates in Mbit/s, each for 10 ms.
    fn rates(mbit: &[u64], offset: Duration) -> RecordedRates {
        let point = |(index, &rate): (u64, &u64)| (Duration::from_millis(10 * index), rate as f64 * 1e6);
        let mut points: Vec<_> = (0..).zip(mbit).map(point).collect();
        points.push((Duration::from_millis(10 * mbit.len() as u64), 0.0));
        RecordedRates::new(&Series::new("x.csv", points), offset)
    }

    #[test]
    fn departures_equal_times_computed_by_hand() {
        // 12 Mbit/s (1500 bytes in 1 ms), nothing, 6 Mbit/s.
        let mut rates = rates(&[12, 0, 6], Duration::ZERO);
        assert_eq!(rates.send(ms(0), 1500), ms(1));
        // Half of the packet leaves in the first 10 ms, the other half at 6 Mbit/s after the pause.
        assert_eq!(rates.send(Time::from_nanos(9_500_000), 1500), ms(21));
        assert_eq!([9, 10, 15, 20, 21].map(|at| rates.used_until(ms(at))), [1500, 2250, 2250, 2250, 3000]);
        // The recording repeats: 6,750 bytes in the rest of the 6 Mbit/s, then 15,000 bytes in the 12 Mbit/s.
        assert_eq!(rates.send(ms(21), 21_750), ms(40));
        assert_eq!([10, 20, 30, 40].map(|at| rates.offered_until(ms(at))), [15_000, 15_000, 22_500, 37_500]);
    }

    #[test]
    fn consecutive_packets_accumulate_no_rounding() {
        // 3 Gbit/s: 40 bytes take 106.67 ns.
        let mut rates = rates(&[3000], Duration::ZERO);
        let end = (0..3000).fold(Time::ZERO, |at, _| rates.send(at, 40));
        assert_eq!(end.as_nanos(), 320_000);
    }

    #[test]
    fn run_may_begin_within_the_recording() {
        let mut rates = rates(&[12, 0, 6], Duration::from_millis(45));
        // The pause of the second round ends after 5 ms.
        assert_eq!(rates.send(ms(0), 1500), ms(7));
        assert_eq!(rates.offered_until(ms(5)), 0);
    }

    #[test]
    fn stopped_packet_is_not_sent() {
        let mut rates = rates(&[12], Duration::ZERO);
        assert_eq!(rates.send(ms(0), 15_000), ms(10));
        rates.stop(ms(4));
        assert_eq!((rates.used_until(ms(4)), rates.used_until(ms(20))), (6000, 6000));
        assert_eq!(rates.send(ms(20), 1500), ms(21));
    }
}
