//! Pacing: packets leave in bursts of a quantum, spaced so that their rate is that of the congestion control
//! (draft-ietf-ccwg-bbr, "Pacing Rate" and "Send Quantum").

use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;

/// Duration of a quantum at the pacing rate.
const QUANTUM: Duration = Duration::from_millis(1);
/// Maximum quantum, bytes.
const MAX_QUANTUM_BYTES: u64 = 64 * 1024;
/// Minimum quantum, packets: a receiver that acknowledges every other packet then acknowledges each burst.
const MIN_QUANTUM_PACKETS: u64 = 2;

/// The pacer of one path.
///
/// Invariant: in any interval, at most the rate times its duration plus two quanta leave. One quantum is the
/// burst; the other one compensates a late timer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// Start of the next burst: the time at which the sent bytes would have left at the pacing rate.
    release: Time,
    /// Bytes that may still leave in this burst.
    left: u64,
}

impl Pacer {
    /// The time at which the next packet may leave; `None` if it may leave now.
    pub fn held_until(&self, now: Time) -> Option<Time> {
        (self.left == 0 && now < self.release).then_some(self.release)
    }

    /// Records that a packet of `bytes` bytes leaves at `rate`; packets of its path carry `mss` bytes.
    pub fn sent(&mut self, now: Time, bytes: u64, (rate, mss): (Rate, u64)) {
        if now >= self.release {
            let quantum = quantum(rate, mss);
            let late = rate.time_to_send(quantum);
            self.release = self.release.max(now - late);
            self.left = quantum;
        }
        self.left = self.left.saturating_sub(bytes);
        self.release += rate.time_to_send(bytes);
    }
}

/// Number of bytes in one burst at `rate`.
pub fn quantum(rate: Rate, mss: u64) -> u64 {
    let bytes = u128::from(rate.bits_per_second()) * u128::from(QUANTUM.as_nanos()) / 8_000_000_000;
    u64::try_from(bytes).unwrap_or(MAX_QUANTUM_BYTES).min(MAX_QUANTUM_BYTES).max(MIN_QUANTUM_PACKETS * mss)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    /// Sends all that may leave, with exact timers; returns the times of the packets, µs.
    fn run(rate: Rate, packets: usize) -> Vec<u64> {
        let mut pacer = Pacer::default();
        let mut now = at(1_000_000);
        let mut times = Vec::new();
        while times.len() < packets {
            if let Some(until) = pacer.held_until(now) {
                now = until;
            }
            pacer.sent(now, MSS, (rate, MSS));
            times.push((now.as_nanos() / 1_000).saturating_sub(1_000_000));
        }
        times
    }

    #[test]
    fn quantum_is_a_millisecond_or_two_packets() {
        assert_eq!(quantum(Rate::from_bits_per_second(8_000_000), MSS), 2_000);
        assert_eq!(quantum(Rate::from_bits_per_second(80_000_000), MSS), 10_000);
        assert_eq!(quantum(Rate::from_bits_per_second(80_000_000_000), MSS), 65_536);
        assert_eq!(quantum(Rate::from_bits_per_second(u64::MAX), 9_000), 65_536);
    }

    #[test]
    fn bursts_are_spaced_by_the_rate() {
        // 1,000 bytes per millisecond: two packets every two milliseconds. The first burst includes the
        // credit for a late timer.
        let times = run(Rate::from_bits_per_second(8_000_000), 8);
        assert_eq!(times, [0, 0, 0, 0, 2_000, 2_000, 4_000, 4_000]);
        // Ten packets a millisecond.
        let times = run(Rate::from_bits_per_second(80_000_000), 40);
        assert_eq!((times[19], times[20], times[29], times[30]), (0, 1_000, 1_000, 2_000));
    }

    #[test]
    fn late_timer_does_not_lower_the_rate() {
        let rate = Rate::from_bits_per_second(8_000_000);
        let mut pacer = Pacer::default();
        let (mut now, mut bytes) = (at(0), 0);
        while now < at(1_000_000) {
            if let Some(until) = pacer.held_until(now) {
                now = until + Duration::from_micros(900);
            } else {
                pacer.sent(now, MSS, (rate, MSS));
                bytes += MSS;
            }
        }
        assert!((998_000..=1_004_000).contains(&bytes), "{bytes} in a second");
    }

    #[test]
    fn idle_time_adds_at_most_a_quantum() {
        let rate = Rate::from_bits_per_second(8_000_000);
        let mut pacer = Pacer::default();
        pacer.sent(at(0), MSS, (rate, MSS));
        let mut burst = 0;
        while pacer.held_until(at(5_000_000)).is_none() {
            pacer.sent(at(5_000_000), MSS, (rate, MSS));
            burst += 1;
        }
        assert_eq!(burst, 4);
        assert_eq!(pacer.held_until(at(5_000_000)), Some(at(5_002_000)));
    }
}
